// Checking a network's description, and packing its weights.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>

#include "engine.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace firstspike {

namespace {
constexpr size_t kHugePage = size_t{1} << 21;
}

template <class T>
Buffer<T>::Buffer(size_t size) : size_(size) {
    const size_t page = size * sizeof(T) < kHugePage ? 64 : kHugePage;
    const size_t bytes = (size * sizeof(T) + 2 * page - 1) / page * page;
    T* at = static_cast<T*>(std::aligned_alloc(page, bytes));
    if (!at) throw std::bad_alloc();
#if defined(__linux__)
    if (page == kHugePage) madvise(at, bytes, MADV_HUGEPAGE);  // a wish: large layers are read far and wide
#endif
    std::memset(static_cast<void*>(at), 0, bytes);
    memory_.reset(at);
}

template <class T>
void Buffer<T>::Free::operator()(T* at) const {
    std::free(at);
}

template <class T>
void Buffer<T>::clear() {
    if (size_) std::memset(static_cast<void*>(data()), 0, size_ * sizeof(T));
}

template class Buffer<float>;
template class Buffer<uint8_t>;
template class Buffer<int32_t>;
template class Buffer<uint32_t>;

namespace {

constexpr int64_t kMostValues = int64_t{1} << 30;
constexpr int kConvVectors = 4, kLinearVectors = 8;
constexpr int64_t kFarWeights = 2'000'000;
constexpr double kFewSpikes = 0.4;

[[noreturn]] void refuse(size_t layer, const std::string& what) {
    throw std::invalid_argument("layer " + std::to_string(layer + 1) + ": " + what);
}

int32_t padded(int32_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

int64_t product(std::initializer_list<int64_t> factors) {
    int64_t result = 1;
    for (int64_t factor : factors) {
        if (factor < 0 || (factor && result > kMostValues / factor)) return kMostValues + 1;
        result *= factor;
    }
    return result;
}

void check(const LayerSpec& spec, size_t index, int T) {
    if (spec.channels < 1 || spec.height < 1 || spec.width < 1 || spec.outputs < 1)
        refuse(index, "its shape has sizes below 1");
    if (spec.kernel < 0 || spec.padding < 0 || spec.padding > 1024 || (!spec.kernel && spec.padding))
        refuse(index, "its kernel or padding is impossible");
    const int64_t rows = int64_t{spec.height} + 2 * spec.padding, cols = int64_t{spec.width} + 2 * spec.padding;
    if (spec.kernel > rows || spec.kernel > cols) refuse(index, "its kernel is larger than its input");
    const int64_t taps = spec.kernel ? product({spec.kernel, spec.kernel}) : product({spec.height, spec.width});
    const int64_t weights = product({spec.outputs, spec.channels, taps});
    const int64_t padded_weights = product({int64_t{spec.outputs} + kLanes, int64_t{spec.channels} + 4, taps});
    const int64_t cells = product({rows, cols, int64_t{spec.channels} + kLanes});
    const int64_t neurons = product({rows, cols, int64_t{spec.outputs} + kLanes});
    if (padded_weights > kMostValues || cells > kMostValues || neurons > kMostValues)
        refuse(index, "it is too large for this engine");
    if (!spec.weights_f32 == !spec.weights_i8) refuse(index, "give weights in float32 or in int8");
    if (spec.weight_count != weights)
        refuse(index, "it has " + std::to_string(spec.weight_count) + " weights, but its shape asks for " +
                          std::to_string(weights));
    const size_t outputs = static_cast<size_t>(spec.outputs);
    if (spec.bias.size() != outputs || spec.unit.size() != outputs) refuse(index, "its bias has another length");
    const bool integer = spec.weights_i8 && !(spec.tau > 0);
    const size_t theta = integer ? spec.theta_i32.size() : spec.theta_f32.size();
    if (theta != outputs * static_cast<size_t>(T)) refuse(index, "its thresholds have another length");
    if (spec.tau != 0 && !(spec.tau >= 1)) refuse(index, "its time constant is below 1");
    if (spec.most < 1 || spec.most > (spec.weights_i8 ? 127 : 255))
        refuse(index, "the pooling in front of it is too wide to count in a byte");
    // Over all steps an input counts `most` at most, and under max pooling once at each step.
    if (spec.weights_i8 && product({int64_t{spec.channels} * taps, spec.most, 127, 255}) > kMostValues * 8)
        refuse(index, "its sums could exceed 32 bits; use float32 weights");
}

// Blocks of output channels; a convolution's are narrower, because several positions share the registers. `bytes`:
// the weights of one output channel.
std::vector<Block> cut(int32_t outputs, bool linear, size_t bytes) {
    std::vector<Block> blocks;
    const int32_t halves = (outputs + kHalf - 1) / kHalf, vectors = (halves + 1) / 2;
    const int32_t most = linear ? kLinearVectors : kConvVectors;
    const int32_t count = (vectors + most - 1) / most;
    size_t weights = 0;
    for (int32_t block = 0, first = 0; block < count; ++block) {
        const int32_t wanted = 2 * (vectors / count + (block < vectors % count ? 1 : 0));
        const int32_t width = std::min(wanted, halves - first);
        blocks.push_back({first * kHalf, width, weights});
        first += width;
        weights += bytes * static_cast<size_t>(width * kHalf);
    }
    return blocks;
}

// The largest int16 weight such that no sum exceeds 30 bits. Over all steps an input counts `most` at most, as a neuron
// fires once; under max pooling (where `most` is 1) it may count once at each step.
int64_t levels(const LayerSpec& spec, int T) {
    const int64_t fan_in = spec.weight_count / spec.outputs, counts = spec.most > 1 ? spec.most : T;
    return std::min<int64_t>(32767, (int64_t{1} << 30) / product({fan_in, counts}));
}

// float32 layers that take spikes are screened by int16 sums where that is faster: see screen.hpp. The last layer's
// sums are looked at as they are, and a narrow one is not worth it.
Kind kind_of(const LayerSpec& spec, int T, bool analog, bool last, const Kernels& kernels) {
    if (spec.weights_i8) return Kind::i8;
    const bool screened = kernels.fast_i16 && !analog && !last && !(spec.tau > 0) && spec.outputs >= 2 * kLanes;
    return screened && levels(spec, T) >= 4096 ? Kind::i16 : Kind::f32;
}

// What one int16 step of each output's weights is worth.
std::vector<double> units(const LayerSpec& spec, int T) {
    std::vector<double> found;
    const int64_t fan_in = spec.weight_count / spec.outputs;
    for (int32_t out = 0; out < spec.outputs; ++out) {
        double largest = 0;
        for (int64_t at = 0; at < fan_in; ++at)
            largest = std::max(largest, std::abs(static_cast<double>(spec.weights_f32[out * fan_in + at])));
        found.push_back(largest > 0 ? largest / static_cast<double>(levels(spec, T)) : 1.0);
    }
    return found;
}

// Every weight at its place: put(out, from, row, lane) for output `out`, its place in the description, its row of
// lanes and where in it.
template <class Put>
void each_weight(const LayerSpec& spec, const Grid& g, int fold, const Put& put) {
    const int32_t kh = spec.kernel ? spec.kernel : spec.height, kw = spec.kernel ? spec.kernel : spec.width;
    for (int32_t out = 0; out < spec.outputs; ++out)
        for (int32_t c = 0; c < spec.channels; ++c)
            for (int32_t y = 0; y < kh; ++y)
                for (int32_t x = 0; x < kw; ++x) {
                    const size_t from = ((static_cast<size_t>(out) * spec.channels + c) * kh + y) * kw + x;
                    const size_t tap = static_cast<size_t>(y) * kw + x;
                    put(out, c, from, tap, tap * g.inputs + c / fold);
                }
}

void pack(const LayerSpec& spec, Layer& layer, const std::vector<double>& unit) {
    const Grid& g = layer.grid;
    const int fold = fold_of(layer.kind);
    const size_t rows = static_cast<size_t>(g.kh) * g.kw * g.inputs;
    layer.blocks = cut(spec.outputs, layer.linear, rows * 4);
    layer.weights = Buffer<uint8_t>(rows * 4 * static_cast<size_t>(g.stride));
    if (layer.kind == Kind::i16)
        layer.exact = Buffer<float>(static_cast<size_t>(spec.outputs) * g.kh * g.kw * g.cell);
    std::vector<const Block*> block_of;
    for (const Block& block : layer.blocks)
        for (int32_t lane = 0; lane < block.halves * kHalf; ++lane) block_of.push_back(&block);
    each_weight(spec, g, fold, [&](int32_t out, int32_t c, size_t from, size_t tap, size_t row) {
        const Block& block = *block_of[static_cast<size_t>(out)];
        const size_t whole = static_cast<size_t>(block.halves / 2) * kLanes, lane = static_cast<size_t>(out - block.first);
        const size_t at = lane < whole ? row * whole + lane : rows * whole + row * kHalf + lane - whole;
        uint8_t* to = layer.weights.data() + block.weights + 4 * at;
        if (layer.kind == Kind::f32) {
            std::memcpy(to, &spec.weights_f32[from], 4);
        } else if (layer.kind == Kind::i8) {
            std::memcpy(to + c % 4, &spec.weights_i8[from], 1);
        } else {
            const float weight = spec.weights_f32[from];
            const int16_t whole_number = static_cast<int16_t>(std::lrint(weight / unit[static_cast<size_t>(out)]));
            std::memcpy(to + c % 2 * 2, &whole_number, 2);
            const size_t taps = static_cast<size_t>(g.kh) * g.kw;
            layer.exact.data()[(static_cast<size_t>(out) * taps + tap) * g.cell + static_cast<size_t>(c)] = weight;
        }
    });
}

// Rows for a layer that is large enough: see rows.hpp. A convolution takes them while spikes are few. A fully connected
// layer beyond the caches is as slow as its weights come in, and always takes them, so that weights whose input is
// silent stay where they are.
void pack_rows(const LayerSpec& spec, Layer& layer, const std::vector<double>& unit) {
    const Grid& g = layer.grid;
    const int64_t inputs = int64_t{g.rows} * g.cols * g.channels;
    if (layer.kind == Kind::f32 || spec.outputs < 48 || (layer.linear && spec.weight_count < kFarWeights)) return;
    layer.most_rows = layer.linear ? inputs * spec.most : static_cast<int64_t>(kFewSpikes * static_cast<double>(inputs));
    const int32_t outputs = row_outputs(layer.kind), width = layer.linear ? kLinearRows : outputs;
    const size_t rows = static_cast<size_t>(g.kh) * g.kw * g.channels;
    const size_t vectors = static_cast<size_t>((spec.outputs + outputs - 1) / outputs);
    for (int32_t first = 0; first < spec.outputs; first += width)
        layer.row_blocks.push_back({first, std::min(width, g.stride - first),
                                    static_cast<size_t>(first / outputs) * 64 * (layer.linear ? 1 : rows)});
    layer.row_weights = Buffer<uint8_t>(rows * vectors * 64);
    const uint16_t none = layer.kind == Kind::i8 ? 0x8080 : 0x8000;  // lanes without an output add nothing
    std::fill_n(layer.row_weights.as<uint16_t>(), layer.row_weights.size() / 2, none);
    each_weight(spec, g, 1, [&](int32_t out, int32_t c, size_t from, size_t tap, size_t) {
        const size_t row = tap * static_cast<size_t>(g.channels) + static_cast<size_t>(c);
        const size_t vector = static_cast<size_t>(out / outputs);
        const int32_t lane = out % outputs, half = outputs / 2;
        const size_t place = static_cast<size_t>(lane % half * 2 + lane / half);
        uint8_t* to = layer.row_weights.data() + (layer.linear ? row * vectors + vector : vector * rows + row) * 64;
        if (layer.kind == Kind::i8) {
            to[place] = static_cast<uint8_t>(static_cast<int>(spec.weights_i8[from]) + 128);
        } else {
            const long whole = std::lrint(spec.weights_f32[from] / unit[static_cast<size_t>(out)]);
            const uint16_t raised = static_cast<uint16_t>(whole + 32768);
            std::memcpy(to + 2 * place, &raised, 2);
        }
    });
}

// The thresholds in int16 steps.
std::vector<int32_t> whole_thetas(const LayerSpec& spec, const std::vector<double>& unit, int T) {
    constexpr double limit = 1 << 30;
    std::vector<int32_t> found;
    for (int t = 0; t < T; ++t)
        for (size_t out = 0; out < unit.size(); ++out) {
            const double theta = spec.theta_f32[static_cast<size_t>(t) * unit.size() + out] / unit[out];
            found.push_back(static_cast<int32_t>(std::lrint(std::clamp(theta, -limit, limit))));
        }
    return found;
}

template <class Value>
Buffer<Value> spread(const std::vector<Value>& values, int32_t rows, int32_t outputs, int32_t stride, Value rest) {
    Buffer<Value> result(static_cast<size_t>(rows) * stride);
    for (int32_t row = 0; row < rows; ++row)
        for (int32_t c = 0; c < stride; ++c)
            result.data()[static_cast<size_t>(row) * stride + c] =
                c < outputs ? values[static_cast<size_t>(row) * outputs + c] : rest;
    return result;
}

Layer make(const LayerSpec& spec, size_t index, int T, bool analog, bool last, const Kernels& kernels) {
    check(spec, index, T);
    Layer layer;
    layer.kind = kind_of(spec, T, analog, last, kernels);
    layer.linear = !spec.kernel;
    layer.saturate = spec.saturate;
    layer.tau = spec.tau;
    layer.padding = spec.padding;
    layer.outputs = spec.outputs;
    Grid& g = layer.grid;
    g.channels = spec.channels;
    g.inputs = (spec.channels + fold_of(layer.kind) - 1) / fold_of(layer.kind);
    g.cell = padded(spec.channels);
    g.stride = padded(spec.outputs);
    if (layer.linear) {
        g.rows = g.kh = 1;
        g.cols = g.kw = spec.height * spec.width;
    } else {
        g.rows = spec.height + 2 * spec.padding;
        g.cols = spec.width + 2 * spec.padding;
        g.kh = g.kw = spec.kernel;
    }
    g.out_rows = g.rows - g.kh + 1;
    g.out_cols = g.cols - g.kw + 1;
    const std::vector<double> unit = layer.kind == Kind::i16 ? units(spec, T) : std::vector<double>();
    pack(spec, layer, unit);
    pack_rows(spec, layer, unit);
    if (layer.integer()) {
        const std::vector<int32_t> theta = layer.kind == Kind::i16 ? whole_thetas(spec, unit, T) : spec.theta_i32;
        layer.theta_i32 = spread(theta, T, spec.outputs, g.stride, std::numeric_limits<int32_t>::max());
    }
    if (!spec.theta_f32.empty())
        layer.theta_f32 =
            spread(spec.theta_f32, T, spec.outputs, g.stride, std::numeric_limits<float>::infinity());
    layer.bias = spread(spec.bias, 1, spec.outputs, g.stride, 0.0f);
    layer.unit = spread(spec.unit, 1, spec.outputs, g.stride, 0.0f);
    return layer;
}

// The byte in the input of the next layer at which each output position of `layer` counts, or -1.
std::vector<int32_t> targets(const Layer& layer, const LayerSpec& spec, const LayerSpec& after, const Layer& next,
                             size_t index) {
    if (after.channels != spec.outputs) refuse(index + 1, "it takes another number of channels than come to it");
    if (spec.to_row.size() != static_cast<size_t>(layer.grid.out_rows) ||
        spec.to_col.size() != static_cast<size_t>(layer.grid.out_cols))
        refuse(index, "its pooling does not fit its output");
    for (int32_t row : spec.to_row)
        if (row < -1 || row >= after.height) refuse(index, "its pooling points outside of the next layer");
    for (int32_t col : spec.to_col)
        if (col < -1 || col >= after.width) refuse(index, "its pooling points outside of the next layer");
    std::vector<int32_t> found;
    for (int32_t row : spec.to_row)
        for (int32_t col : spec.to_col) {
            const int32_t at = next.linear ? row * after.width + col
                                           : (row + next.padding) * next.grid.cols + col + next.padding;
            found.push_back(row < 0 || col < 0 ? -1 : at * next.grid.cell);
        }
    return found;
}

// Positions that count at the same place, together.
void group(Layer& layer, const std::vector<int32_t>& targets) {
    for (int32_t position = 0; position < layer.grid.positions(); ++position) layer.place.push_back(position);
    const auto target = [&](int32_t position) { return targets[static_cast<size_t>(position)]; };
    std::stable_sort(layer.place.begin(), layer.place.end(),
                     [&](int32_t one, int32_t other) { return target(one) < target(other); });
    for (size_t at = 0; at < layer.place.size(); ++at)
        if (at == 0 || target(layer.place[at]) != layer.target.back()) {
            layer.start.push_back(static_cast<int32_t>(at));
            layer.target.push_back(target(layer.place[at]));
        }
    layer.start.push_back(static_cast<int32_t>(layer.place.size()));
}

}  // namespace

Model::Model(const std::vector<LayerSpec>& specs, int steps, Encoding encoding_, std::vector<float> mean_,
             std::vector<float> deviation_, const std::string& isa)
    : T(steps), encoding(encoding_), mean(std::move(mean_)), deviation(std::move(deviation_)) {
    if (specs.empty()) throw std::invalid_argument("there is no layer");
    if (T < 1 || T > 255) throw std::invalid_argument("T must be between 1 and 255");
    kernels = isa.empty() ? &best_kernels() : find_kernels(isa.c_str());
    if (!kernels) throw std::invalid_argument("this machine or build has no " + isa + " kernels");
    const size_t last = specs.size() - 1;
    for (size_t index = 0; index <= last; ++index) {
        const bool analog = index == 0 && encoding != Encoding::latency;
        layers.push_back(make(specs[index], index, T, analog, index == last, *kernels));
    }
    for (size_t index = 0; index < last; ++index)
        group(layers[index], targets(layers[index], specs[index], specs[index + 1], layers[index + 1], index));
    group(layers[last], std::vector<int32_t>(static_cast<size_t>(layers[last].grid.positions()), -1));
    channels = specs[0].channels;
    height = specs[0].height;
    width = specs[0].width;
    classes = specs.back().outputs;
    if (layers[last].grid.positions() != 1) refuse(last, "the output must be one position");
    if (layers[0].kind == Kind::i8 && encoding != Encoding::latency) refuse(0, "it takes an image, so its weights are float32");
    const size_t wanted = static_cast<size_t>(channels);
    if (mean.size() != wanted || deviation.size() != wanted)
        throw std::invalid_argument("the input's mean and deviation need one value a channel");
    for (float value : deviation)
        if (!(value > 0)) throw std::invalid_argument("the input's deviation must be positive");
}

}  // namespace firstspike
