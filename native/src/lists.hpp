// What is not zero in a map of counts, and such maps for dense products. For kernels.cpp only.
#pragma once
#include "lanes.hpp"

namespace firstspike::FS_ISA {
namespace {

// The inputs of one cell as events from number n on; returns the next number. The rest of a cell is always zero.
#if defined(__AVX512VL__) && defined(__AVX512BW__)
inline __m512i words_of(F32, const uint8_t* counts, int) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(counts));
    return _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)));
}
inline __m512i words_of(I16, const uint8_t* counts, int left) {
    const __mmask32 there = left >= kLanes ? ~0u : (1u << (2 * left)) - 1u;
    return _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(there, counts));
}
inline __m512i words_of(I8, const uint8_t* counts, int left) {
    const __mmask16 there = static_cast<__mmask16>(left >= kLanes ? 0xffff : (1 << left) - 1);
    return _mm512_maskz_loadu_epi32(there, counts);
}

template <class K>
inline int32_t list_cell(const Grid& g, const uint8_t* counts, int32_t base, int32_t* offset, void* value, int32_t n) {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int input = 0; input < g.inputs; input += kLanes) {
        const __m512i words = words_of(K{}, counts + input * K::fold, g.inputs - input);
        const __mmask16 set = _mm512_test_epi32_mask(words, words);
        if (!set) continue;
        const __m512i at = _mm512_add_epi32(lane, _mm512_set1_epi32(base + input));
        _mm512_storeu_si512(offset + n, _mm512_maskz_compress_epi32(set, at));
        _mm512_storeu_si512(static_cast<uint32_t*>(value) + n, _mm512_maskz_compress_epi32(set, words));
        n += __builtin_popcount(set);
    }
    return n;
}
#else
inline float value_of(F32, const uint8_t* counts) { return static_cast<float>(*counts); }
inline uint32_t value_of(I16, const uint8_t* counts) {
    return static_cast<uint32_t>(counts[0]) | static_cast<uint32_t>(counts[1]) << 16;
}
inline uint32_t value_of(I8, const uint8_t* counts) {
    uint32_t word;
    __builtin_memcpy(&word, counts, 4);
    return word;
}

template <class K>
inline int32_t list_cell(const Grid& g, const uint8_t* counts, int32_t base, int32_t* offset, void* value, int32_t n) {
    typename K::Value* values = static_cast<typename K::Value*>(value);
    constexpr int step = kLanes / K::fold;
    for (int input = 0; input < g.inputs; input += step) {
        uint64_t words[2];
        __builtin_memcpy(words, counts + input * K::fold, 16);
        if (!(words[0] | words[1])) continue;
        for (int at = input; at < input + step; ++at) {
            const typename K::Value found = value_of(K{}, counts + at * K::fold);
            offset[n] = base + at;
            values[n] = found;
            n += found != 0;
        }
    }
    return n;
}
#endif

template <class K>
int32_t list(const Grid& g, const uint8_t* counts, int32_t* offset, void* value, int32_t* start) {
    int32_t n = 0;
    for (int r = 0; r < g.rows; ++r) {
        for (int x = 0; x < g.cols; ++x, counts += g.cell) {
            *start++ = n;
            n = list_cell<K>(g, counts, x * g.inputs, offset, value, n);
        }
        *start++ = n;
    }
    return n;
}

void widen_f32(const Grid& g, const uint8_t* counts, void* map) {
    float* to = static_cast<float*>(map);
    const int64_t cells = static_cast<int64_t>(g.rows) * g.cols;
    for (int64_t cell = 0; cell < cells; ++cell, counts += g.cell, to += g.inputs)
        for (int c = 0; c < g.inputs; ++c) to[c] = static_cast<float>(counts[c]);
}

void widen_i16(const Grid& g, const uint8_t* counts, void* map) {
    uint32_t* to = static_cast<uint32_t*>(map);
    const int64_t cells = static_cast<int64_t>(g.rows) * g.cols;
    for (int64_t cell = 0; cell < cells; ++cell, counts += g.cell, to += g.inputs)
        for (int c = 0; c < g.inputs; ++c)
            to[c] = static_cast<uint32_t>(counts[2 * c]) | static_cast<uint32_t>(counts[2 * c + 1]) << 16;
}

}  // namespace
}  // namespace firstspike::FS_ISA
