// One sample through a model, step by step.
#include <cmath>
#include <cstring>

#include "engine.hpp"

namespace firstspike {

namespace {

// Above this share of inputs that are not zero, the dense product over several positions is faster.
constexpr double kDense[] = {0.5, 0.5, 0.5};  // by Kind
// Products below which a layer is not worth waking other threads for.
constexpr double kShareWork = 2e7;

}  // namespace

Run::Run(const Model& model, Workers* workers) : model_(model), workers_(workers), states_(model.layers.size()) {
    for (size_t index = 0; index < states_.size(); ++index) {
        const Layer& layer = model.layers[index];
        const Grid& g = layer.grid;
        State& state = states_[index];
        const size_t positions = static_cast<size_t>(g.positions()), neurons = positions * g.stride;
        const size_t cells = static_cast<size_t>(g.rows) * g.cols, inputs = cells * g.inputs;
        state.acc = Buffer<uint32_t>(neurons);
        if (layer.tau > 0) state.membrane = Buffer<float>(neurons);
        state.times = Buffer<uint8_t>(neurons);
        state.counts = Buffer<uint8_t>(cells * g.cell);
        state.start = Buffer<int32_t>(static_cast<size_t>(g.rows) * (g.cols + 1));
        state.offset = Buffer<int32_t>(std::max(inputs, static_cast<size_t>(layer.most_rows)) + kLanes);
        state.value = Buffer<uint32_t>(inputs + kLanes);
        if (layer.kind != Kind::i8 && (!layer.linear || index == 0)) state.map = Buffer<uint32_t>(inputs);
        if (layer.kind == Kind::i16) {
            state.total = Buffer<uint8_t>(cells * g.cell);
            state.cells = Buffer<int32_t>(cells);
            state.mass = Buffer<int32_t>(positions);
        }
    }
    if (model.encoding == Encoding::latency) latency_ = Buffer<uint8_t>(model.image_size());
}

void Run::begin() {
    t_ = 0;
    for (State& state : states_) state.spikes = state.arrived = 0;
}

// The standardised image or frame, channels-last, in the first layer's map; its border stays zero.
Input Run::take_image(const float* image) {
    const Layer& layer = model_.layers[0];
    const Grid& g = layer.grid;
    float* map = states_[0].map.as<float>();
    const size_t area = static_cast<size_t>(model_.height) * model_.width;
    float check = 0;
    for (int32_t c = 0; c < model_.channels; ++c) {
        const float mean = model_.mean[c], deviation = model_.deviation[c];
        const bool plain = mean == 0 && deviation == 1;
        for (int32_t y = 0; y < model_.height; ++y) {
            const float* from = image + c * area + static_cast<size_t>(y) * model_.width;
            const size_t cell = layer.linear
                                    ? static_cast<size_t>(y) * model_.width
                                    : static_cast<size_t>(y + layer.padding) * g.cols + layer.padding;
            float* to = map + cell * g.channels + c;
            for (int32_t x = 0; x < model_.width; ++x) {
                check += from[x] * 0.0f;  // NaN for NaN and for infinity
                to[static_cast<size_t>(x) * g.channels] = plain ? from[x] : (from[x] - mean) / deviation;
            }
        }
    }
    return check == 0 ? Input::good : Input::not_finite;
}

Input Run::take_latency(const float* image) {
    uint8_t* times = latency_.data();
    for (size_t pixel = 0; pixel < model_.image_size(); ++pixel) {
        const float value = image[pixel];
        if (!(value >= 0 && value <= 1)) return std::isfinite(value) ? Input::not_pixels : Input::not_finite;
        times[pixel] = static_cast<uint8_t>(std::nearbyint((1.0f - value) * static_cast<float>(model_.T - 1)));
    }
    return Input::good;
}

// The pixels that fire at this step, as counts of the first layer.
void Run::put_latency() {
    const Layer& layer = model_.layers[0];
    State& state = states_[0];
    const uint8_t* times = latency_.data();
    state.counts.clear();
    state.arrived = 0;
    for (int32_t c = 0; c < model_.channels; ++c)
        for (int32_t y = 0; y < model_.height; ++y)
            for (int32_t x = 0; x < model_.width; ++x)
                if (*times++ == t_) {
                    const int32_t cell = layer.linear
                                             ? y * model_.width + x
                                             : (y + layer.padding) * layer.grid.cols + x + layer.padding;
                    state.counts.data()[static_cast<size_t>(cell) * layer.grid.cell + c] = 1;
                    ++state.arrived;
                }
}

// Call task(block, y0, y1) for all of a layer, over several threads where the work is worth it.
template <class Task>
void Run::share(const Layer& layer, const std::vector<Block>& parts_of, double work, const Task& task) {
    const int64_t blocks = static_cast<int64_t>(parts_of.size());
    const int32_t rows = layer.grid.out_rows;
    if (!workers_ || workers_->size() == 1 || work < kShareWork) {
        for (const Block& block : parts_of) task(block, 0, rows);
        return;
    }
    const int64_t wanted = 4 * workers_->size();
    const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(rows, (wanted + blocks - 1) / blocks));
    workers_->run(blocks * parts, [&](int64_t number, int) {
        const int64_t part = number % parts;
        task(parts_of[static_cast<size_t>(number / parts)], static_cast<int32_t>(rows * part / parts),
             static_cast<int32_t>(rows * (part + 1) / parts));
    });
}

// The first layer's current from values that need not be spikes.
void Run::integrate_analog(size_t index, bool fresh) {
    const Layer& layer = model_.layers[index];
    const Grid& g = layer.grid;
    State& state = states_[index];
    const Products& products = model_.kernels->products[static_cast<int>(Kind::f32)];
    const float* map = state.map.as<float>();
    float* acc = state.acc.as<float>();
    const int32_t size = g.rows * g.cols * g.channels;
    int32_t active = 0;
    for (int32_t at = 0; at < size; ++at) active += map[at] != 0;
    const double work = static_cast<double>(size) * g.kh * g.kw * layer.outputs;
    if (!layer.linear && active > kDense[0] * size) {
        share(layer, layer.blocks, work, [&](const Block& b, int32_t y0, int32_t y1) {
            products.dense(g, layer.weights.data() + b.weights, b.halves, map, acc + b.first, fresh, y0, y1);
        });
        return;
    }
    int32_t n = 0;
    int32_t* start = state.start.data();
    for (int32_t row = 0; row < g.rows; ++row) {
        for (int32_t col = 0; col < g.cols; ++col) {
            *start++ = n;
            for (int32_t c = 0; c < g.channels; ++c, ++map) {
                state.offset.data()[n] = col * g.channels + c;
                state.value.as<float>()[n] = *map;
                n += *map != 0;
            }
        }
        *start++ = n;
    }
    const Events events{state.offset.data(), state.value.data(), state.start.data()};
    share(layer, layer.blocks, static_cast<double>(n) * g.kh * g.kw * layer.outputs, [&](const Block& b, int32_t y0, int32_t y1) {
        products.gather(g, layer.weights.data() + b.weights, b.halves, events, acc + b.first, fresh, y0, y1);
    });
}

// The current of the spikes that have been counted at a layer's input. Without spikes there is none.
void Run::integrate_counts(size_t index, bool fresh) {
    const Layer& layer = model_.layers[index];
    const Grid& g = layer.grid;
    State& state = states_[index];
    const Products& products = model_.kernels->products[static_cast<int>(layer.kind)];
    const uint8_t* counts = state.counts.data();
    if (!state.arrived) {
        if (!fresh) return;
        state.acc.clear();
        state.total.clear();
        state.mass.clear();
        return;
    }
    if (layer.kind == Kind::i16)
        model_.kernels->tally(g, counts, fresh, state.total.data(), state.cells.data(), state.mass.data());
    if (state.arrived <= layer.most_rows) return integrate_rows(index, fresh);
    const double inputs = static_cast<double>(g.rows) * g.cols * g.inputs;
    const double taps = static_cast<double>(g.kh) * g.kw * layer.outputs;
    uint32_t* acc = state.acc.data();
    const int32_t n = products.list(g, counts, state.offset.data(), state.value.data(), state.start.data());
    if (!layer.linear && n > kDense[static_cast<int>(layer.kind)] * inputs) {
        if (products.widen) products.widen(g, counts, state.map.data());
        const void* map = products.widen ? static_cast<const void*>(state.map.data()) : counts;
        share(layer, layer.blocks, inputs * taps, [&](const Block& b, int32_t y0, int32_t y1) {
            products.dense(g, layer.weights.data() + b.weights, b.halves, map, acc + b.first, fresh, y0, y1);
        });
        return;
    }
    const Events events{state.offset.data(), state.value.data(), state.start.data()};
    share(layer, layer.blocks, n * taps, [&](const Block& b, int32_t y0, int32_t y1) {
        products.gather(g, layer.weights.data() + b.weights, b.halves, events, acc + b.first, fresh, y0, y1);
    });
}

// The same one spike at a time.
void Run::integrate_rows(size_t index, bool fresh) {
    const Layer& layer = model_.layers[index];
    const Grid& g = layer.grid;
    State& state = states_[index];
    const RowSums& rows = layer.kind == Kind::i8 ? model_.kernels->rows_i8 : model_.kernels->rows_i16;
    const int32_t n = model_.kernels->list_rows(g, state.counts.data(), state.offset.data(), state.start.data());
    const Events events{state.offset.data(), nullptr, state.start.data()};
    const auto add = layer.linear ? rows.linear : rows.conv;
    int32_t* acc = state.acc.as<int32_t>();
    const double work = static_cast<double>(n) * g.kh * g.kw * layer.outputs;
    share(layer, layer.row_blocks, work, [&](const Block& b, int32_t y0, int32_t y1) {
        add(g, layer.row_weights.data() + b.weights, b.halves, events, acc + b.first, fresh, y0, y1);
    });
}

// Threshold of one layer; its spikes are counted at the next layer's input.
int64_t Run::fire(size_t index) {
    const Layer& layer = model_.layers[index];
    const Grid& g = layer.grid;
    State& state = states_[index];
    const Kernels& k = *model_.kernels;
    const bool last = index + 1 == states_.size();
    const Moment now{t_, model_.T, t_ == 0, layer.saturate};
    const Groups groups = layer.groups();
    uint8_t* counts = last ? nullptr : states_[index + 1].counts.data();
    uint8_t* times = state.times.data();
    const size_t step = static_cast<size_t>(t_) * g.stride;
    const int32_t* sums = state.acc.as<int32_t>();
    int64_t spikes;
    if (layer.tau > 0) {
        float* membrane = state.membrane.data();
        if (layer.kind == Kind::i8)
            k.leak_i32(g, sums, layer.unit.data(), layer.bias.data(), layer.tau, now.fresh, membrane);
        else
            k.leak_f32(g, state.acc.as<float>(), layer.bias.data(), layer.tau, now.fresh, membrane);
        spikes = k.fire_f32(g, groups, now, membrane, layer.theta_f32.data() + step, times, counts);
    } else if (layer.kind == Kind::i16) {
        const Exact exact{&g, state.mass.data(), state.total.data(), layer.exact.data(), layer.theta_f32.data() + step};
        spikes = k.fire_i16(g, groups, now, sums, layer.theta_i32.data() + step, exact, times, counts);
    } else if (layer.kind == Kind::i8) {
        spikes = k.fire_i32(g, groups, now, sums, layer.theta_i32.data() + step, times, counts);
    } else {
        spikes = k.fire_f32(g, groups, now, state.acc.as<float>(), layer.theta_f32.data() + step, times, counts);
    }
    state.spikes += spikes;
    if (!last) states_[index + 1].arrived = spikes;
    return spikes;
}

// One step through all layers. With a constant input the first layer's current is worked out at the first step only.
bool Run::advance(bool constant_input) {
    int64_t spikes = 0;
    for (size_t index = 0; index < states_.size(); ++index) {
        // A leaky layer keeps its membrane apart, and its current is that of this step alone.
        const bool fresh = t_ == 0 || model_.layers[index].tau > 0;
        if (index > 0 || model_.encoding == Encoding::latency)
            integrate_counts(index, fresh);
        else if (t_ == 0 || !constant_input)
            integrate_analog(index, fresh);
        spikes = fire(index);
    }
    ++t_;
    return spikes > 0;
}

Input Run::classify(const float* image, size_t pitch, Ties ties, Answer& answer) {
    begin();
    if (model_.encoding != Encoding::frames) {
        const Input input = model_.encoding == Encoding::direct ? take_image(image) : take_latency(image);
        if (input != Input::good) return input;
    }
    bool fired = false;
    while (!fired && t_ < model_.T) {
        if (model_.encoding == Encoding::latency) put_latency();
        if (model_.encoding == Encoding::frames) {
            const Input input = take_image(image + static_cast<size_t>(t_) * pitch);
            if (input != Input::good) return input;
        }
        fired = advance(model_.encoding == Encoding::direct);
    }
    answer = decide(ties);
    return Input::good;
}

Input Run::step(const float* frame, bool& fired) {
    if (model_.encoding == Encoding::latency) {
        // A frame of a latency code is its spikes at this step.
        for (size_t pixel = 0; pixel < model_.image_size(); ++pixel) {
            if (frame[pixel] != 0 && frame[pixel] != 1)
                return std::isfinite(frame[pixel]) ? Input::not_pixels : Input::not_finite;
            latency_.data()[pixel] = static_cast<uint8_t>(frame[pixel] != 0 ? t_ : 255);
        }
        put_latency();
    } else {
        const Input input = take_image(frame);
        if (input != Input::good) return input;
    }
    fired = advance(false);
    return Input::good;
}

Answer Run::decide(Ties ties) const {
    const uint8_t* times = states_.back().times.data();
    Answer answer;
    answer.steps = t_;
    int32_t fired = 0, lowest = 0, highest = -1;
    for (int32_t c = 0; c < model_.classes; ++c)
        if (times[c] == t_ - 1 && fired++ == 0) lowest = c;
    answer.tied = fired > 1;
    answer.silent = fired == 0;
    if (ties == Ties::strict || fired == 1) {
        answer.label = lowest;
        return answer;
    }
    float best = 0;
    for (int32_t c = 0; c < model_.classes; ++c) {
        if (fired && times[c] != t_ - 1) continue;
        const float value = output(c);
        if (highest < 0 || value > best) {
            highest = c;
            best = value;
        }
    }
    answer.label = highest;
    return answer;
}

void Run::spikes(int64_t* out) const {
    for (const State& state : states_) *out++ = state.spikes;
}

// The membrane of an output neuron.
float Run::output(int32_t channel) const {
    const State& state = states_.back();
    const Layer& layer = model_.layers.back();
    const size_t at = static_cast<size_t>(channel);
    if (layer.tau > 0) return state.membrane.data()[at];
    const float sum = layer.kind == Kind::i8 ? static_cast<float>(state.acc.as<int32_t>()[at]) * layer.unit.data()[at]
                                             : state.acc.as<float>()[at];
    return sum + static_cast<float>(t_) * layer.bias.data()[at];
}

void Run::membrane(float* out) const {
    for (int32_t c = 0; c < model_.classes; ++c) out[c] = output(c);
}

void Run::times(size_t index, uint8_t* out) const {
    const Layer& layer = model_.layers[index];
    const uint8_t* times = states_[index].times.data();
    for (int32_t c = 0; c < layer.outputs; ++c)
        for (int32_t position = 0; position < layer.grid.positions(); ++position)
            *out++ = times[static_cast<size_t>(position) * layer.grid.stride + c];
}

}  // namespace firstspike
