// The inner loops, compiled once for each instruction set and picked at run time.
//
// A layer maps an input grid of `rows` x `cols` positions with `channels` values each to an output grid by a
// kernel of kh x kw positions, stride 1. Padding is part of the input grid. A fully connected layer is the case of
// one row whose kernel covers all of it. Outputs are channels-last, `stride` lanes a position, padded to 16.
//
// Inputs are taken 1 (float32), 2 (int16) or 4 (int8) channels at a time, so that a lane of weights is always four
// bytes and the sums are 32 bits wide. Weights are packed by blocks of halves * 8 output channels: one row of lanes
// for each [kh][kw][input]. The whole vectors of 16 lanes of all rows come first, then the odd halves of all rows,
// so that no vector crosses a cache line. One spike adds one row.
#pragma once
#include <cstddef>
#include <cstdint>

namespace firstspike {

constexpr int kLanes = 16;
constexpr int kHalf = 8;

enum class Kind { f32, i16, i8 };

// Channels of one input.
constexpr int fold_of(Kind kind) { return kind == Kind::f32 ? 1 : kind == Kind::i16 ? 2 : 4; }

struct Grid {
    int32_t rows, cols, channels;
    int32_t inputs;  // channels / fold, rounded up
    int32_t cell;    // bytes of a position in the map of counts: channels rounded up to 16
    int32_t kh, kw;
    int32_t out_rows, out_cols;
    int32_t stride;  // lanes of an output position
    int32_t positions() const { return out_rows * out_cols; }
};

// The inputs of a grid that are not zero, row by row: an offset is col * inputs + input, a value a float or the counts
// of 2 or 4 channels; start[row * (cols + 1) + col] is the first event at or after that column.
struct Events {
    const int32_t* offset;
    const void* value;
    const int32_t* start;
};

// How a kind of weights becomes current.
struct Products {
    // acc (+)= the layer's current, for output rows y0 to y1 and one block of output channels. `fresh`: acc = current.
    void (*gather)(const Grid&, const void* weights, int halves, const Events&, void* acc, bool fresh, int y0, int y1);
    // The same from a map of all inputs: the counts themselves for int8, else what `widen` makes of them.
    void (*dense)(const Grid&, const void* weights, int halves, const void* map, void* acc, bool fresh, int y0, int y1);
    // What is not zero; returns the number of events. Room for 16 more than there can be is needed.
    int32_t (*list)(const Grid&, const uint8_t* counts, int32_t* offset, void* value, int32_t* start);
    void (*widen)(const Grid&, const uint8_t* counts, void* map);
};

// Where spikes go: group g holds the positions place[start[g]] to place[start[g + 1]], which all count at target[g], a
// byte offset in the next layer's counts (-1 where pooling drops them). No two groups have one target.
struct Groups {
    int32_t count;
    const int32_t *place, *start, *target;
};

struct Moment {
    int t, T;
    bool fresh;     // the first step: nobody has fired
    bool saturate;  // several spikes at a target count as one
};

// What decides where the int16 sum is too near to the threshold: see screen.hpp.
struct Exact {
    const Grid* grid;
    const int32_t* mass;   // [positions]: counts that a position has seen so far
    const uint8_t* total;  // counts so far, as a map
    const float* weights;  // [outputs][kh][kw][cell]
    const float* theta;    // [stride], for float32 sums
};

// int8 or int16 weights one spike at a time: see rows.hpp. A vector of 64 bytes holds this many output channels, which
// is a block of a convolution. A fully connected layer has blocks of kLinearRows, and its rows lie one behind the other.
constexpr int row_outputs(Kind kind) { return kind == Kind::i8 ? 64 : 32; }
constexpr int kLinearRows = 2048;

struct RowSums {
    // As Products::gather; `lanes`: of acc, from the block's first on.
    void (*conv)(const Grid&, const uint8_t* weights, int lanes, const Events&, int32_t* acc, bool fresh, int y0, int y1);
    void (*linear)(const Grid&, const uint8_t* weights, int lanes, const Events&, int32_t* acc, bool fresh, int y0,
                   int y1);
};

struct Kernels {
    const char* name;
    bool fast_i16;  // whether int16 products are worth it
    Products products[3];  // by Kind
    RowSums rows_i16, rows_i8;
    // Every spike by itself: its offset is col * channels + channel. Room for 16 more than the spikes is needed.
    int32_t (*list_rows)(const Grid&, const uint8_t* counts, int32_t* offset, int32_t* start);

    // Neurons whose acc reaches theta (one a channel) for the first time fire: their time is noted, and they count
    // at the target of their group. Returns the spikes.
    int64_t (*fire_f32)(const Grid&, const Groups&, const Moment&, const float* acc, const float* theta, uint8_t* times,
                        uint8_t* counts);
    int64_t (*fire_i32)(const Grid&, const Groups&, const Moment&, const int32_t* acc, const int32_t* theta,
                        uint8_t* times, uint8_t* counts);
    int64_t (*fire_i16)(const Grid&, const Groups&, const Moment&, const int32_t* acc, const int32_t* theta,
                        const Exact&, uint8_t* times, uint8_t* counts);
    // total (+)= counts, and the mass of every position; `cells` has room for a number a cell of the grid.
    void (*tally)(const Grid&, const uint8_t* counts, bool fresh, uint8_t* total, int32_t* cells, int32_t* mass);

    // H += (current + bias - H) / tau, for leaky neurons; the int32 current is multiplied by unit first.
    void (*leak_f32)(const Grid&, const float* current, const float* bias, float tau, bool fresh, float* membrane);
    void (*leak_i32)(const Grid&, const int32_t* current, const float* unit, const float* bias, float tau, bool fresh,
                     float* membrane);
};

// The kernels of an instruction set ("avx512", "avx2", "portable"), or nullptr where this machine lacks it.
const Kernels* find_kernels(const char* name);
// The best of this machine.
const Kernels& best_kernels();

}  // namespace firstspike
