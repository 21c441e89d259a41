// int8 layers with few spikes: each spike adds its own row of bytes. For kernels.cpp only.
//
// Products of four inputs at a time (lanes.hpp) waste what spikes do not fill. Here a row holds w + 128 as bytes, and
// is added to sums of 16 bits without being widened: as words the bytes 2i and 2i + 1 are low + 256 high, so
//     all += row;  high += row >> 8;  and in the end  low = all - 256 high,
// which is right modulo 2^16 for up to 256 rows. The low bytes of a vector are its first 32 output channels, the high
// ones the others. A count of 2 is two spikes.
#pragma once
#include "lanes.hpp"

namespace firstspike::FS_ISA {
namespace {

typedef uint16_t u16v __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint16_t u16h __attribute__((vector_size(32), aligned(4), may_alias));

constexpr int32_t kMostRows = 256;

// acc (+)= 32 sums less what the rows were raised by, as far as there are lanes.
inline void put(u16v sums, int32_t raised, int32_t* acc, int lanes, bool set) {
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

// The spikes [from, to) into one position of 64 output channels; `weights` is where the row of offset 0 would be.
inline void add_rows(const uint8_t* weights, const int32_t* offset, int32_t from, int32_t to, int32_t* acc, int lanes,
                     bool set) {
    do {
        const int32_t count = to - from > kMostRows ? kMostRows : to - from;
        const int32_t *at = offset + from, *end = at + count;
        u16v all = {}, high = {}, other_all = {}, other_high = {};
        for (; at + 2 <= end; at += 2) {
            const u16v one = *reinterpret_cast<const u16v*>(weights + static_cast<ptrdiff_t>(at[0]) * 64);
            const u16v two = *reinterpret_cast<const u16v*>(weights + static_cast<ptrdiff_t>(at[1]) * 64);
            all += one;
            high += one >> 8;
            other_all += two;
            other_high += two >> 8;
        }
        if (at < end) {
            const u16v one = *reinterpret_cast<const u16v*>(weights + static_cast<ptrdiff_t>(at[0]) * 64);
            all += one;
            high += one >> 8;
        }
        high += other_high;
        put(all + other_all - (high << 8), 128 * count, acc, lanes, set);
        put(high, 128 * count, acc + 32, lanes - 32, set);
        from += count;
        set = false;
    } while (from < to);
}

// Few enough weights at a time for the first-level cache: those of a kernel row, or of one tap.
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
                    add_rows(weights + shift * 64, events.offset, start[x], start[x + width], out, lanes, set);
                }
            }
        }
}

// Four rows at a time, each a long piece of memory, with those of the next four on their way.
void rows_linear(const Grid& g, const uint8_t* weights, int lanes, const Events& events, int32_t* acc, bool fresh, int,
                 int) {
    const int vectors = (lanes + 63) / 64;
    const ptrdiff_t pitch = (g.stride + 63) / 64 * 64;
    const int32_t* offset = events.offset;
    const int32_t to = events.start[g.cols];
    const auto row = [&](int32_t e) { return weights + offset[e < to ? e : to - 1] * pitch; };
    int32_t from = 0;
    do {
        const int32_t count = to - from > kMostRows ? kMostRows : to - from, end = from + count;
        u16v all[kLinearRows / 64], high[kLinearRows / 64];
        for (int v = 0; v < vectors; ++v) all[v] = high[v] = u16v{};
        int32_t e = from;
        for (; e + 4 <= end; e += 4) {
            const uint8_t* now[4] = {row(e), row(e + 1), row(e + 2), row(e + 3)};
            const uint8_t* next[4] = {row(e + 4), row(e + 5), row(e + 6), row(e + 7)};
            for (int v = 0; v < vectors; ++v) {
                u16v sum = all[v], above = high[v];
                FS_UNROLL
                for (int j = 0; j < 4; ++j) {
                    __builtin_prefetch(next[j] + 64 * v);
                    const u16v bytes = *reinterpret_cast<const u16v*>(now[j] + 64 * v);
                    sum += bytes;
                    above += bytes >> 8;
                }
                all[v] = sum;
                high[v] = above;
            }
        }
        for (; e < end; ++e)
            for (int v = 0; v < vectors; ++v) {
                const u16v bytes = *reinterpret_cast<const u16v*>(row(e) + 64 * v);
                all[v] += bytes;
                high[v] += bytes >> 8;
            }
        for (int v = 0; v < vectors; ++v) {
            put(all[v] - (high[v] << 8), 128 * count, acc + 64 * v, lanes - 64 * v, fresh);
            put(high[v], 128 * count, acc + 64 * v + 32, lanes - 64 * v - 32, fresh);
        }
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
