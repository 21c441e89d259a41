// Checking a network's description, and packing its weights.
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>

#include "engine.hpp"

namespace firstspike {

template <class T>
Buffer<T>::Buffer(size_t size) : size_(size) {
    const size_t bytes = (size * sizeof(T) + 127) / 64 * 64;
    T* at = static_cast<T*>(std::aligned_alloc(64, bytes));
    if (!at) throw std::bad_alloc();
    std::memset(static_cast<void*>(at), 0, bytes);
    memory_.reset(at);
}

template <class T>
void Buffer<T>::Free::operator()(T* at) const {
    std::free(at);
}

template <class T>
void Buffer<T>::clear() {
    std::memset(static_cast<void*>(data()), 0, size_ * sizeof(T));
}

template class Buffer<float>;
template class Buffer<int8_t>;
template class Buffer<uint8_t>;
template class Buffer<int32_t>;
template class Buffer<uint32_t>;

namespace {

constexpr int64_t kMostValues = int64_t{1} << 30;
constexpr int kConvVectors = 4, kLinearVectors = 8;

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

// Blocks of output channels; a convolution's are narrower, because several positions share the registers. `taps`:
// weights of one output channel.
std::vector<Block> cut(int32_t outputs, bool linear, size_t taps) {
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
        weights += taps * static_cast<size_t>(width * kHalf);
    }
    return blocks;
}

void pack(const LayerSpec& spec, Layer& layer) {
    const Grid& g = layer.grid;
    const int32_t kh = spec.kernel ? spec.kernel : spec.height, kw = spec.kernel ? spec.kernel : spec.width;
    const int32_t inputs = layer.is_int8 ? g.groups : g.channels;
    const size_t fold = layer.is_int8 ? 4 : 1, taps = static_cast<size_t>(kh) * kw * inputs * fold;
    layer.blocks = cut(spec.outputs, layer.linear, taps);
    const size_t total = taps * static_cast<size_t>(g.stride);
    if (layer.is_int8)
        layer.weights_i8 = Buffer<int8_t>(total);
    else
        layer.weights_f32 = Buffer<float>(total);
    for (const Block& block : layer.blocks) {
        const size_t row = static_cast<size_t>(block.halves * kHalf) * fold;
        const int32_t end = std::min(block.first + block.halves * kHalf, spec.outputs);
        for (int32_t out = block.first; out < end; ++out)
            for (int32_t c = 0; c < spec.channels; ++c)
                for (int32_t y = 0; y < kh; ++y)
                    for (int32_t x = 0; x < kw; ++x) {
                        const size_t from = ((static_cast<size_t>(out) * spec.channels + c) * kh + y) * kw + x;
                        const size_t tap = static_cast<size_t>(y) * kw + x;
                        const size_t lane = static_cast<size_t>(out - block.first);
                        if (layer.is_int8) {
                            const size_t at = (tap * inputs + c / 4) * row + lane * 4 + c % 4;
                            layer.weights_i8.data()[block.weights + at] = spec.weights_i8[from];
                        } else {
                            const size_t at = (tap * inputs + c) * row + lane;
                            layer.weights_f32.data()[block.weights + at] = spec.weights_f32[from];
                        }
                    }
    }
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

Layer make(const LayerSpec& spec, size_t index, int T) {
    check(spec, index, T);
    Layer layer;
    layer.linear = !spec.kernel;
    layer.is_int8 = spec.weights_i8;
    layer.saturate = spec.saturate;
    layer.tau = spec.tau;
    layer.padding = spec.padding;
    layer.outputs = spec.outputs;
    Grid& g = layer.grid;
    g.channels = spec.channels;
    g.groups = (spec.channels + 3) / 4;
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
    layer.out_height = g.out_rows;
    layer.out_width = g.out_cols;
    pack(spec, layer);
    constexpr float never = std::numeric_limits<float>::infinity();
    if (layer.is_int8 && !(spec.tau > 0))
        layer.theta_i32 =
            spread(spec.theta_i32, T, spec.outputs, g.stride, std::numeric_limits<int32_t>::max());
    else
        layer.theta_f32 = spread(spec.theta_f32, T, spec.outputs, g.stride, never);
    layer.bias = spread(spec.bias, 1, spec.outputs, g.stride, 0.0f);
    layer.unit = spread(spec.unit, 1, spec.outputs, g.stride, 0.0f);
    return layer;
}

// Where each output position of `layer` counts in the input of the next.
void connect(Layer& layer, const LayerSpec& spec, const LayerSpec& after, const Layer& next, size_t index) {
    if (after.channels != spec.outputs) refuse(index + 1, "it takes another number of channels than come to it");
    if (spec.to_row.size() != static_cast<size_t>(layer.out_height) ||
        spec.to_col.size() != static_cast<size_t>(layer.out_width))
        refuse(index, "its pooling does not fit its output");
    for (int32_t row : spec.to_row)
        if (row < -1 || row >= after.height) refuse(index, "its pooling points outside of the next layer");
    for (int32_t col : spec.to_col)
        if (col < -1 || col >= after.width) refuse(index, "its pooling points outside of the next layer");
    for (int32_t row : spec.to_row)
        for (int32_t col : spec.to_col) {
            const int32_t at = next.linear ? row * after.width + col
                                           : (row + next.padding) * next.grid.cols + col + next.padding;
            layer.target.push_back(row < 0 || col < 0 ? -1 : at * next.grid.cell);
        }
}

}  // namespace

Model::Model(const std::vector<LayerSpec>& specs, int steps, Encoding encoding_, std::vector<float> mean_,
             std::vector<float> deviation_, const std::string& isa)
    : T(steps), encoding(encoding_), mean(std::move(mean_)), deviation(std::move(deviation_)) {
    if (specs.empty()) throw std::invalid_argument("there is no layer");
    if (T < 1 || T > 255) throw std::invalid_argument("T must be between 1 and 255");
    kernels = isa.empty() ? &best_kernels() : find_kernels(isa.c_str());
    if (!kernels) throw std::invalid_argument("this machine or build has no " + isa + " kernels");
    for (size_t index = 0; index < specs.size(); ++index) layers.push_back(make(specs[index], index, T));
    for (size_t index = 0; index + 1 < specs.size(); ++index)
        connect(layers[index], specs[index], specs[index + 1], layers[index + 1], index);
    channels = specs[0].channels;
    height = specs[0].height;
    width = specs[0].width;
    classes = specs.back().outputs;
    if (layers.back().positions() != 1) refuse(specs.size() - 1, "the output must be one position");
    if (layers[0].is_int8 && encoding != Encoding::latency) refuse(0, "it takes an image, so its weights are float32");
    const size_t wanted = static_cast<size_t>(channels);
    if (mean.size() != wanted || deviation.size() != wanted)
        throw std::invalid_argument("the input's mean and deviation need one value a channel");
    for (float value : deviation)
        if (!(value > 0)) throw std::invalid_argument("the input's deviation must be positive");
}

}  // namespace firstspike
