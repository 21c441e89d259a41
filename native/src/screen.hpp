// float32 networks with half the bytes: the sums are of int16 weights, and decide wherever they can.
//
// An int16 weight is at most half a unit off, so the sum of a neuron that has seen `mass` counts is at most mass / 2
// off. Where that could matter (one neuron in two or three thousand), the float32 sum is worked out from all counts so far,
// and decides. So the spikes are those of the float32 weights. For kernels.cpp only.
#pragma once
#include "fire.hpp"

namespace firstspike::FS_ISA {
namespace {

// The float32 sum of one neuron over all that it has seen.
inline float exact_sum(const Exact& exact, int32_t place, int channel) {
    const Grid& g = *exact.grid;
    const int32_t y = place / g.out_cols, x = place % g.out_cols;
    const int32_t span = g.kw * g.cell;
    const float* w = exact.weights + static_cast<size_t>(channel) * g.kh * span;
    float parts[kLanes] = {};
    for (int ky = 0; ky < g.kh; ++ky, w += span) {
        const uint8_t* seen = exact.total + (static_cast<size_t>(y + ky) * g.cols + x) * g.cell;
        for (int32_t at = 0; at < span; at += kLanes)
            for (int lane = 0; lane < kLanes; ++lane) parts[lane] += static_cast<float>(seen[at + lane]) * w[at + lane];
    }
    float sum = 0;
    for (float part : parts) sum += part;
    return sum;
}

inline uint32_t decide(const Exact& exact, int32_t place, int first, uint32_t open) {
    uint32_t fires = 0;
    for (; open; open &= open - 1) {
        const int lane = __builtin_ctz(open);
        if (exact_sum(exact, place, first + lane) >= exact.theta[first + lane]) fires |= 1u << lane;
    }
    return fires;
}

inline uint32_t silent(const uint8_t* times, int T) {
    uint32_t mask = 0;
    for (int lane = 0; lane < kLanes; ++lane) mask |= static_cast<uint32_t>(times[lane] == T) << lane;
    return mask;
}

int64_t fire_i16(const Grid& g, const Groups& groups, const Moment& now, const int32_t* acc, const int32_t* theta,
                 const Exact& exact, uint8_t* times, uint8_t* counts) {
    return fire_all(g, groups, now, times, counts, [&](int32_t place, int lane) {
        const size_t at = static_cast<size_t>(place) * g.stride + lane;
        const int32_t reach = exact.mass[place] / 2 + 2;  // 2: theta is rounded as well
        const uint32_t sure = reaches(acc + at, theta + lane, -reach);
        uint32_t open = reaches(acc + at, theta + lane, reach) & ~sure;
        if (!open) return sure;
        if (!now.fresh) open &= silent(times + at, now.T);
        return sure | decide(exact, place, lane, open);
    });
}

void tally(const Grid& g, const uint8_t* counts, bool fresh, uint8_t* total, int32_t* cells, int32_t* mass) {
    const size_t bytes = static_cast<size_t>(g.rows) * g.cols * g.cell;
    if (fresh)
        __builtin_memcpy(total, counts, bytes);
    else
        for (size_t at = 0; at < bytes; ++at) total[at] = static_cast<uint8_t>(total[at] + counts[at]);
    if (g.positions() == 1) {
        int32_t sum = 0;
        for (size_t at = 0; at < bytes; ++at) sum += total[at];
        *mass = sum;
        return;
    }
    for (int32_t cell = 0; cell < g.rows * g.cols; ++cell, total += g.cell) {
        int32_t sum = 0;
        for (int32_t c = 0; c < g.cell; ++c) sum += total[c];
        cells[cell] = sum;
    }
    for (int32_t y = 0; y < g.out_rows; ++y)
        for (int32_t x = 0; x < g.out_cols; ++x) mass[y * g.out_cols + x] = 0;
    for (int32_t y = 0; y < g.rows; ++y, cells += g.cols) {
        // In place: the sum of kw cells from each column on.
        for (int32_t x = 0; x < g.out_cols; ++x) {
            int32_t sum = 0;
            for (int32_t kx = 0; kx < g.kw; ++kx) sum += cells[x + kx];
            cells[x] = sum;
        }
        const int32_t first = y - g.kh + 1 > 0 ? y - g.kh + 1 : 0, end = y + 1 < g.out_rows ? y + 1 : g.out_rows;
        for (int32_t to = first; to < end; ++to)
            for (int32_t x = 0; x < g.out_cols; ++x) mass[to * g.out_cols + x] += cells[x];
    }
}

}  // namespace
}  // namespace firstspike::FS_ISA
