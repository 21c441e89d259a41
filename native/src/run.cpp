// One sample through a model, step by step.
#include <cmath>
#include <cstring>

#include "engine.hpp"

namespace firstspike {

namespace {

// Above this share of inputs that are not zero, the dense product over several positions is faster.
constexpr double kDenseF32 = 0.5, kDenseI8 = 0.5;
// Products below which a layer is not worth waking other threads for.
constexpr double kShareWork = 2e7;

}  // namespace

Run::Run(const Model& model, Workers* workers) : model_(model), workers_(workers), states_(model.layers.size()) {
    for (size_t index = 0; index < states_.size(); ++index) {
        const Layer& layer = model.layers[index];
        const Grid& g = layer.grid;
        State& state = states_[index];
        const size_t neurons = static_cast<size_t>(layer.positions()) * g.stride;
        const size_t cells = static_cast<size_t>(g.rows) * g.cols;
        if (layer.is_int8)
            state.acc_i32 = Buffer<int32_t>(neurons);
        else
            state.acc_f32 = Buffer<float>(neurons);
        if (layer.tau > 0) state.membrane = Buffer<float>(neurons);
        state.times = Buffer<uint8_t>(neurons);
        state.counts = Buffer<uint8_t>(cells * g.cell);
        state.start = Buffer<int32_t>(static_cast<size_t>(g.rows) * (g.cols + 1));
        const size_t most = cells * (layer.is_int8 ? g.groups : g.channels) + kLanes;
        state.offset = Buffer<int32_t>(most);
        if (layer.is_int8) {
            state.value_i8 = Buffer<uint32_t>(most);
        } else {
            state.value_f32 = Buffer<float>(most);
            if (!layer.linear || index == 0) state.map = Buffer<float>(cells * g.channels);
        }
    }
    if (model.encoding == Encoding::latency) latency_ = Buffer<uint8_t>(model.image_size());
}

void Run::begin() {
    t_ = 0;
    for (State& state : states_) {
        state.spikes = 0;
        if (state.arrived) state.counts.clear();
        state.arrived = 0;
    }
}

// The standardised image or frame, channels-last, in the first layer's map; its border stays zero.
Input Run::take_image(const float* image) {
    const Layer& layer = model_.layers[0];
    const Grid& g = layer.grid;
    float* map = states_[0].map.data();
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
void Run::share(const Layer& layer, double work, const Task& task) {
    const int64_t blocks = static_cast<int64_t>(layer.blocks.size());
    const int32_t rows = layer.grid.out_rows;
    if (!workers_ || workers_->size() == 1 || work < kShareWork) {
        for (const Block& block : layer.blocks) task(block, 0, rows);
        return;
    }
    const int64_t wanted = 4 * workers_->size();
    const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(rows, (wanted + blocks - 1) / blocks));
    workers_->run(blocks * parts, [&](int64_t number, int) {
        const int64_t part = number % parts;
        task(layer.blocks[static_cast<size_t>(number / parts)], static_cast<int32_t>(rows * part / parts),
             static_cast<int32_t>(rows * (part + 1) / parts));
    });
}

// The first layer's current from values that need not be spikes.
void Run::integrate_analog(size_t index, bool fresh) {
    const Layer& layer = model_.layers[index];
    const Grid& g = layer.grid;
    State& state = states_[index];
    const Kernels& k = *model_.kernels;
    const float* map = state.map.data();
    float* acc = state.acc_f32.data();
    const float* weights = layer.weights_f32.data();
    const int32_t size = g.rows * g.cols * g.channels;
    int32_t active = 0;
    for (int32_t at = 0; at < size; ++at) active += map[at] != 0;
    const double work = static_cast<double>(size) * g.kh * g.kw * layer.outputs;
    if (!layer.linear && active > kDenseF32 * size) {
        share(layer, work, [&](const Block& b, int32_t y0, int32_t y1) {
            k.dense_f32(g, weights + b.weights, b.halves, map, acc + b.first, fresh, y0, y1);
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
                state.value_f32.data()[n] = *map;
                n += *map != 0;
            }
        }
        *start++ = n;
    }
    const Events<float> events{state.offset.data(), state.value_f32.data(), state.start.data()};
    share(layer, static_cast<double>(n) * g.kh * g.kw * layer.outputs, [&](const Block& b, int32_t y0, int32_t y1) {
        k.gather_f32(g, weights + b.weights, b.halves, events, acc + b.first, fresh, y0, y1);
    });
}

// The current of the spikes that have been counted at a layer's input. Without spikes there is none.
void Run::integrate_counts(size_t index, bool fresh) {
    const Layer& layer = model_.layers[index];
    const Grid& g = layer.grid;
    State& state = states_[index];
    const Kernels& k = *model_.kernels;
    if (!state.arrived) {
        if (fresh && layer.is_int8) state.acc_i32.clear();
        if (fresh && !layer.is_int8) state.acc_f32.clear();
        return;
    }
    const double taps = static_cast<double>(g.kh) * g.kw * layer.outputs;
    const double cells = static_cast<double>(g.rows) * g.cols;
    const uint8_t* counts = state.counts.data();
    if (layer.is_int8) {
        const int8_t* weights = layer.weights_i8.data();
        int32_t* acc = state.acc_i32.data();
        const int32_t n =
            k.list_i8(g, counts, state.offset.data(), state.value_i8.data(), state.start.data());
        if (!layer.linear && n > kDenseI8 * cells * g.groups) {
            share(layer, cells * g.groups * taps, [&](const Block& b, int32_t y0, int32_t y1) {
                k.dense_i8(g, weights + b.weights, b.halves, counts, acc + b.first, fresh, y0, y1);
            });
        } else {
            const Events<uint32_t> events{state.offset.data(), state.value_i8.data(), state.start.data()};
            share(layer, n * taps, [&](const Block& b, int32_t y0, int32_t y1) {
                k.gather_i8(g, weights + b.weights, b.halves, events, acc + b.first, fresh, y0, y1);
            });
        }
    } else {
        const float* weights = layer.weights_f32.data();
        float* acc = state.acc_f32.data();
        const int32_t n =
            k.list_f32(g, counts, state.offset.data(), state.value_f32.data(), state.start.data());
        if (!layer.linear && n > kDenseF32 * cells * g.channels) {
            k.widen(g, counts, state.map.data());
            share(layer, cells * g.channels * taps, [&](const Block& b, int32_t y0, int32_t y1) {
                k.dense_f32(g, weights + b.weights, b.halves, state.map.data(), acc + b.first, fresh, y0, y1);
            });
        } else {
            const Events<float> events{state.offset.data(), state.value_f32.data(), state.start.data()};
            share(layer, n * taps, [&](const Block& b, int32_t y0, int32_t y1) {
                k.gather_f32(g, weights + b.weights, b.halves, events, acc + b.first, fresh, y0, y1);
            });
        }
    }
    state.counts.clear();
    state.arrived = 0;
}

// Threshold of one layer; its spikes are counted at the next layer's input.
int64_t Run::fire(size_t index) {
    const Layer& layer = model_.layers[index];
    const Grid& g = layer.grid;
    State& state = states_[index];
    const Kernels& k = *model_.kernels;
    const bool fresh = t_ == 0, last = index + 1 == states_.size();
    const int32_t positions = layer.positions();
    const int32_t* target = last ? nullptr : layer.target.data();
    uint8_t* counts = last ? nullptr : states_[index + 1].counts.data();
    const size_t theta = static_cast<size_t>(t_) * g.stride;
    uint8_t* times = state.times.data();
    int64_t spikes;
    if (layer.tau > 0) {
        float* membrane = state.membrane.data();
        if (layer.is_int8)
            k.leak_i32(positions, g.stride, state.acc_i32.data(), layer.unit.data(), layer.bias.data(), layer.tau,
                       fresh, membrane);
        else
            k.leak_f32(positions, g.stride, state.acc_f32.data(), layer.bias.data(), layer.tau, fresh, membrane);
        spikes = k.fire_f32(positions, g.stride, membrane, layer.theta_f32.data() + theta, times, t_, model_.T, fresh,
                            target, counts, layer.saturate);
    } else if (layer.is_int8) {
        spikes = k.fire_i32(positions, g.stride, state.acc_i32.data(), layer.theta_i32.data() + theta, times, t_,
                            model_.T, fresh, target, counts, layer.saturate);
    } else {
        spikes = k.fire_f32(positions, g.stride, state.acc_f32.data(), layer.theta_f32.data() + theta, times, t_,
                            model_.T, fresh, target, counts, layer.saturate);
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
    const State& state = states_.back();
    const Layer& layer = model_.layers.back();
    float best = 0;
    for (int32_t c = 0; c < model_.classes; ++c) {
        if (fired && times[c] != t_ - 1) continue;
        const float bias = static_cast<float>(t_) * layer.bias.data()[c];
        const float value = layer.tau > 0    ? state.membrane.data()[c]
                            : layer.is_int8 ? static_cast<float>(state.acc_i32.data()[c]) * layer.unit.data()[c] + bias
                                            : state.acc_f32.data()[c] + bias;
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

void Run::membrane(float* out) const {
    const State& state = states_.back();
    const Layer& layer = model_.layers.back();
    for (int32_t c = 0; c < model_.classes; ++c) {
        const float bias = static_cast<float>(t_) * layer.bias.data()[c];
        out[c] = layer.tau > 0    ? state.membrane.data()[c]
                 : layer.is_int8 ? static_cast<float>(state.acc_i32.data()[c]) * layer.unit.data()[c] + bias
                                 : state.acc_f32.data()[c] + bias;
    }
}

void Run::times(size_t index, uint8_t* out) const {
    const Layer& layer = model_.layers[index];
    const uint8_t* times = states_[index].times.data();
    for (int32_t c = 0; c < layer.outputs; ++c)
        for (int32_t position = 0; position < layer.positions(); ++position)
            *out++ = times[static_cast<size_t>(position) * layer.grid.stride + c];
}

}  // namespace firstspike
