// The inner loops, compiled once for each instruction set and picked at run time.
//
// A layer maps an input grid of `rows` x `cols` positions with `channels` values each to an output grid by a
// kernel of kh x kw positions, stride 1. Padding is part of the input grid. A fully connected layer is the case of
// one row whose kernel covers all of it. Outputs are channels-last, `stride` lanes a position, padded to 16.
//
// Weights are packed by blocks of halves * 8 output channels: [block][kh][kw][channel][halves * 8] in float32, and
// [block][kh][kw][channel / 4][halves * 8][4] in int8, so that one spike adds one contiguous row.
#pragma once
#include <cstddef>
#include <cstdint>

namespace firstspike {

constexpr int kLanes = 16;
constexpr int kHalf = 8;

struct Grid {
    int32_t rows, cols, channels;
    int32_t groups;  // channels / 4, rounded up
    int32_t cell;    // bytes of a position in the map of counts: channels rounded up to 16
    int32_t kh, kw;
    int32_t out_rows, out_cols;
    int32_t stride;  // lanes of an output position
};

// The values of an input grid that are not zero, row by row. An offset is col * channels + channel (float32) or
// col * groups + group (int8); start[row * (cols + 1) + col] is the first event at or after that column.
template <class Value>
struct Events {
    const int32_t* offset;
    const Value* value;
    const int32_t* start;
};

struct Kernels {
    const char* name;

    // acc (+)= the layer's current, for output rows y0 to y1 and one block of output channels. `fresh`: acc = current.
    void (*gather_f32)(const Grid&, const float* weights, int halves, const Events<float>&, float* acc, bool fresh, int y0,
                       int y1);
    void (*dense_f32)(const Grid&, const float* weights, int halves, const float* map, float* acc, bool fresh, int y0,
                      int y1);
    void (*gather_i8)(const Grid&, const int8_t* weights, int halves, const Events<uint32_t>&, int32_t* acc, bool fresh,
                      int y0, int y1);
    void (*dense_i8)(const Grid&, const int8_t* weights, int halves, const uint8_t* counts, int32_t* acc, bool fresh,
                     int y0, int y1);

    // Lists of what is not zero; each returns the number of events. Room for 16 more than there can be is needed.
    int32_t (*list_f32)(const Grid&, const uint8_t* counts, int32_t* offset, float* value, int32_t* start);
    int32_t (*list_i8)(const Grid&, const uint8_t* counts, int32_t* offset, uint32_t* value, int32_t* start);
    void (*widen)(const Grid&, const uint8_t* counts, float* map);

    // Neurons whose acc reaches theta (one a channel) for the first time fire: their time is noted, and they count
    // at `target` (a byte offset in the next layer's map, -1 where pooling drops them). Returns the spikes.
    int64_t (*fire_f32)(int32_t positions, int32_t stride, const float* acc, const float* theta, uint8_t* times, int t,
                        int T, bool fresh, const int32_t* target, uint8_t* counts, bool saturate);
    int64_t (*fire_i32)(int32_t positions, int32_t stride, const int32_t* acc, const int32_t* theta, uint8_t* times,
                        int t, int T, bool fresh, const int32_t* target, uint8_t* counts, bool saturate);

    // H += (current + bias - H) / tau, for leaky neurons; the int32 current is multiplied by unit first.
    void (*leak_f32)(int32_t positions, int32_t stride, const float* current, const float* bias, float tau, bool fresh,
                     float* membrane);
    void (*leak_i32)(int32_t positions, int32_t stride, const int32_t* current, const float* unit, const float* bias,
                     float tau, bool fresh, float* membrane);
};

// The kernels of an instruction set ("avx512", "avx2", "portable"), or nullptr where this machine lacks it.
const Kernels* find_kernels(const char* name);
// The best of this machine.
const Kernels& best_kernels();

}  // namespace firstspike
