// A fused network ready to run (Model), and the memory of one run through it (Run).
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels.hpp"
#include "pool.hpp"

namespace firstspike {

enum class Encoding { direct, latency, frames };

// One layer of neurons, as the caller describes it. Pooling in front of it is folded into weights and grid.
struct LayerSpec {
    int32_t channels = 0, height = 0, width = 0;  // of its input, after pooling
    int32_t outputs = 0;
    int32_t kernel = 0, padding = 0;             // kernel 0: fully connected
    const float* weights_f32 = nullptr;          // [outputs][channels][kernel][kernel], or
    const int8_t* weights_i8 = nullptr;          // the same in int8
    int64_t weight_count = 0;
    std::vector<float> theta_f32;                // [T][outputs]: fires where the sum of currents reaches it, or
    std::vector<int32_t> theta_i32;              // the same for int8 weights
    std::vector<float> bias, unit;               // [outputs]: H = sum * unit + (t + 1) * bias
    float tau = 0;                               // leaky when positive: theta_f32 is then the threshold itself
    std::vector<int32_t> to_row, to_col;         // where an output row or column lands in the next input, or -1
    bool saturate = false;                       // max pooling behind: several spikes count as one
    int32_t most = 1;                            // the largest count that an input of this layer can have
};

// Aligned memory, zero at first.
template <class T>
class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(size_t size);
    T* data() const { return memory_.get(); }
    size_t size() const { return size_; }
    void clear();
    // Four bytes are a float here and an integer there.
    template <class Other>
    Other* as() const {
        return reinterpret_cast<Other*>(data());
    }

  private:
    struct Free {
        void operator()(T* at) const;
    };
    std::unique_ptr<T, Free> memory_;
    size_t size_ = 0;
};

struct Block {
    int32_t first;   // lane of its first output channel
    int32_t halves;  // vectors of 8 channels
    size_t weights;  // the byte where its weights begin
};

struct Layer {
    Kind kind = Kind::f32;
    Grid grid{};
    int32_t padding = 0, outputs = 0;
    bool linear = false, saturate = false;
    float tau = 0;
    std::vector<Block> blocks;
    Buffer<uint8_t> weights;
    Buffer<float> theta_f32, bias, unit;  // theta: [T][stride]
    Buffer<int32_t> theta_i32;
    int64_t most_rows = 0;          // spikes up to which rows are the way: see rows.hpp
    std::vector<Block> row_blocks;  // with the number of lanes for `halves`
    Buffer<uint8_t> row_weights;    // [block][kh][kw][channels][64 bytes], or [inputs][outputs] if fully connected
    Buffer<float> exact;                       // for int16, the float32 weights: [outputs][kh][kw][cell]
    std::vector<int32_t> place, start, target;  // see Groups

    Groups groups() const {
        return {static_cast<int32_t>(target.size()), place.data(), start.data(), target.data()};
    }
    bool integer() const { return kind != Kind::f32 && !(tau > 0); }  // whether sums are compared as integers
};

class Model {
  public:
    // Throws std::invalid_argument where the description does not hold together.
    Model(const std::vector<LayerSpec>& specs, int T, Encoding encoding, std::vector<float> mean,
          std::vector<float> deviation, const std::string& isa);

    int T;
    Encoding encoding;
    int32_t channels, height, width, classes;
    std::vector<float> mean, deviation;
    std::vector<Layer> layers;
    const Kernels* kernels;
    size_t image_size() const { return static_cast<size_t>(channels) * height * width; }
};

struct Answer {
    int32_t label = 0, steps = 0;
    bool tied = false, silent = false;
};

enum class Ties { strict, potential };
enum class Input { good, not_finite, not_pixels };

// The state of one sample. All memory is taken when it is made.
class Run {
  public:
    Run(const Model& model, Workers* workers);

    // A whole sample: an image, or T frames that lie `pitch` values apart. Stops at the first output spike.
    Input classify(const float* image, size_t pitch, Ties ties, Answer& answer);

    // Step by step: begin, then frames until an answer comes.
    void begin();
    // Whether the output fired; `frame` is the input of this step.
    Input step(const float* frame, bool& fired);
    int steps_done() const { return t_; }
    Answer decide(Ties ties) const;

    void spikes(int64_t* out) const;      // [layers]
    void membrane(float* out) const;      // [classes]
    void times(size_t layer, uint8_t* out) const;  // [channels, height, width]

  private:
    struct State {
        Buffer<uint32_t> acc;  // float or int32
        Buffer<float> membrane;
        Buffer<uint8_t> counts, times, total;
        Buffer<int32_t> offset, start, cells, mass;
        Buffer<uint32_t> value, map;
        int64_t arrived = 0;  // spikes in counts
        int64_t spikes = 0;
    };

    Input take_image(const float* image);
    Input take_latency(const float* image);
    void put_latency();
    bool advance(bool constant_input);
    void integrate_analog(size_t index, bool fresh);
    void integrate_counts(size_t index, bool fresh);
    void integrate_rows(size_t index, bool fresh);
    float output(int32_t channel) const;
    template <class Task>
    void share(const Layer& layer, const std::vector<Block>& blocks, double work, const Task& task);
    int64_t fire(size_t index);

    const Model& model_;
    Workers* workers_;
    std::vector<State> states_;
    Buffer<uint8_t> latency_;
    int t_ = 0;
};

}  // namespace firstspike
