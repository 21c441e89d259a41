// Layers with few spikes: each spike adds its own row of weights. For kernels.cpp only.
//
// Products of 2 or 4 inputs at a time (lanes.hpp) waste what spikes do not fill. Here a row holds int8 or int16 weights
// raised to be positive, and is added to sums of twice the width without being widened: two neighbours are
// low + 256 high (for bytes), so
//     all += row;  high += row >> 8;  and in the end  low = all - 256 high,
// which is right modulo 2^16 for up to 256 rows. The low ones of a vector are the first half of its output channels,
// the high ones the second. A count of 2 is two spikes.
#pragma once
#include "lanes.hpp"

namespace firstspike::FS_ISA {
namespace {

typedef uint16_t u16v __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint16_t u16h __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint32_t u32v __attribute__((vector_size(64), aligned(4), may_alias));

struct ByteRows {
    static constexpr int outputs = row_outputs(Kind::i8), width = 8;
    static constexpr int32_t raise = 128, most = 256;
    typedef u16v Vector __attribute__((aligned(4), may_alias));

    // acc (+)= 32 sums less what the rows were raised by, as far as there are lanes.
    static inline void put(u16v sums, int32_t raised, int32_t* acc, int lanes, bool set) {
        union {
            u16v whole;
            u16h half[2];
        } both;
        both.whole = sums;
        FS_UNROLL
        for (int h = 0; h < 2; ++h) {
            if (h * kLanes >= lanes) return;
            const i32v wide = __builtin_convertvector(both.half[h], i32v) - raised;
            i32v* to = reinterpret_cast<i32v*>(acc + h * kLanes);
            *to = set ? wide : *to + wide;
        }
    }
};

struct WordRows {
    static constexpr int outputs = row_outputs(Kind::i16), width = 16;
    static constexpr int32_t raise = 32768, most = 32768;
    typedef u32v Vector __attribute__((aligned(4), may_alias));

    static inline void put(u32v sums, int32_t raised, int32_t* acc, int lanes, bool set) {
        if (lanes <= 0) return;
        const i32v wide = (i32v)(sums - static_cast<uint32_t>(raised));
        i32v* to = reinterpret_cast<i32v*>(acc);
        *to = set ? wide : *to + wide;
    }
};

template <class R>
inline void finish(typename R::Vector all, typename R::Vector high, int32_t count, int32_t* acc, int lanes, bool set) {
    R::put(all - (high << R::width), R::raise * count, acc, lanes, set);
    R::put(high, R::raise * count, acc + R::outputs / 2, lanes - R::outputs / 2, set);
}

// The spikes [from, to) into one position and one vector; `weights` is where the row of offset 0 would be.
template <class R>
inline void add_rows(const uint8_t* weights, const int32_t* offset, int32_t from, int32_t to, int32_t* acc, int lanes,
                     bool set) {
    using Vector = typename R::Vector;
    const auto row = [&](int32_t at) {
        return *reinterpret_cast<const Vector*>(weights + static_cast<ptrdiff_t>(at) * 64);
    };
    do {
        const int32_t count = to - from > R::most ? R::most : to - from;
        const int32_t *at = offset + from, *end = at + count;
        Vector all = {}, high = {}, other_all = {}, other_high = {};
        for (; at + 2 <= end; at += 2) {
            const Vector one = row(at[0]), two = row(at[1]);
            all += one;
            high += one >> R::width;
            other_all += two;
            other_high += two >> R::width;
        }
        if (at < end) {
            const Vector one = row(at[0]);
            all += one;
            high += one >> R::width;
        }
        finish<R>(all + other_all, high + other_high, count, acc, lanes, set);
        from += count;
        set = false;
    } while (from < to);
}

// Few enough weights at a time for the first-level cache: those of a kernel row, or of one tap.
template <class R>
void rows_conv(const Grid& g, const uint8_t* weights, int lanes, const Events& events, int32_t* acc, bool fresh, int y0,
               int y1) {
    const int width = static_cast<size_t>(g.kw) * g.channels * 64 > 28 * 1024 ? 1 : g.kw;
    for (int ky = 0; ky < g.kh; ++ky)
        for (int kx = 0; kx < g.kw; kx += width) {
            const bool set = fresh && ky == 0 && kx == 0;
            for (int y = y0; y < y1; ++y) {
                const int32_t* start = events.start + static_cast<size_t>(y + ky) * (g.cols + 1) + kx;
                int32_t* out = acc + static_cast<size_t>(y) * g.out_cols * g.stride;
                for (int x = 0; x < g.out_cols; ++x, out += g.stride) {
                    if (start[x] == start[x + width] && !set) continue;
                    const ptrdiff_t shift = (static_cast<ptrdiff_t>(ky) * g.kw - x) * g.channels;
                    add_rows<R>(weights + shift * 64, events.offset, start[x], start[x + width], out, lanes, set);
                }
            }
        }
}

// Four rows at a time, each a long piece of memory, with those of the next four on their way.
template <class R>
void rows_linear(const Grid& g, const uint8_t* weights, int lanes, const Events& events, int32_t* acc, bool fresh, int,
                 int) {
    using Vector = typename R::Vector;
    const int vectors = (lanes + R::outputs - 1) / R::outputs;
    const ptrdiff_t pitch = (g.stride + R::outputs - 1) / R::outputs * 64;
    const int32_t* offset = events.offset;
    const int32_t to = events.start[g.cols];
    const auto row = [&](int32_t e) { return weights + offset[e < to ? e : to - 1] * pitch; };
    int32_t from = 0;
    do {
        const int32_t count = to - from > R::most ? R::most : to - from, end = from + count;
        Vector all[kLinearRows / R::outputs], high[kLinearRows / R::outputs];
        for (int v = 0; v < vectors; ++v) all[v] = high[v] = Vector{};
        int32_t e = from;
        for (; e + 4 <= end; e += 4) {
            const uint8_t* now[4] = {row(e), row(e + 1), row(e + 2), row(e + 3)};
            const uint8_t* next[4] = {row(e + 4), row(e + 5), row(e + 6), row(e + 7)};
            for (int v = 0; v < vectors; ++v) {
                Vector sum = all[v], above = high[v];
                FS_UNROLL
                for (int j = 0; j < 4; ++j) {
                    __builtin_prefetch(next[j] + 64 * v);
                    const Vector found = *reinterpret_cast<const Vector*>(now[j] + 64 * v);
                    sum += found;
                    above += found >> R::width;
                }
                all[v] = sum;
                high[v] = above;
            }
        }
        for (; e < end; ++e)
            for (int v = 0; v < vectors; ++v) {
                const Vector found = *reinterpret_cast<const Vector*>(row(e) + 64 * v);
                all[v] += found;
                high[v] += found >> R::width;
            }
        for (int v = 0; v < vectors; ++v)
            finish<R>(all[v], high[v], count, acc + R::outputs * v, lanes - R::outputs * v, fresh);
        from = end;
        fresh = false;
    } while (from < to);
}

int32_t list_rows(const Grid& g, const uint8_t* counts, int32_t* offset, int32_t* start) {
    int32_t n = 0;
    for (int r = 0; r < g.rows; ++r) {
        for (int x = 0; x < g.cols; ++x) {
            *start++ = n;
            for (int c = 0; c < g.channels; c += kLanes, counts += kLanes) {
                const int32_t base = x * g.channels + c;
#if defined(__AVX512VL__) && defined(__AVX512BW__)
                const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(counts));
                const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
                const __m512i at = _mm512_add_epi32(lane, _mm512_set1_epi32(base));
                __mmask16 set = _mm_test_epi8_mask(bytes, bytes);
                for (char more = 1; set; ++more) {
                    _mm512_storeu_si512(offset + n, _mm512_maskz_compress_epi32(set, at));
                    n += __builtin_popcount(set);
                    set = _mm_cmpgt_epi8_mask(bytes, _mm_set1_epi8(more));
                }
#else
                uint64_t words[2];
                __builtin_memcpy(words, counts, 16);
                if (!(words[0] | words[1])) continue;
                for (int lane = 0; lane < kLanes; ++lane)
                    for (int more = 0; more < counts[lane]; ++more) offset[n++] = base + lane;
#endif
            }
        }
        *start++ = n;
    }
    return n;
}

}  // namespace
}  // namespace firstspike::FS_ISA
