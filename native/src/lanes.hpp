// Vectors of lanes, and what differs between the kinds of weights. For kernels.cpp only.
#pragma once
#include "kernels.hpp"

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define FS_UNROLL _Pragma("GCC unroll 32")

namespace firstspike::FS_ISA {
namespace {

typedef float f32v __attribute__((vector_size(64), aligned(4), may_alias));
typedef float f32h __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t i32v __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t i32h __attribute__((vector_size(32), aligned(4), may_alias));

// As many positions at a time as leave the accumulators in registers.
#if defined(__AVX512F__)
constexpr int kRegisters = 24;
#elif defined(__AVX2__)
constexpr int kRegisters = 6;
#elif defined(__ARM_NEON)
constexpr int kRegisters = 6;
#else
constexpr int kRegisters = 4;
#endif

// ---------------------------------------------------------------- products of 4 counts with int8, of 2 with int16

#if defined(__AVX512F__)
// One value in all lanes, straight from memory: GCC would take the long way through a register.
typedef __m512i Spread;
inline Spread spread(const void* value) {
    Spread all;
    __asm__("vpbroadcastd %1, %0" : "=v"(all) : "m"(*static_cast<const uint32_t*>(value)));
    return all;
}
inline __m256i half_of(Spread all) { return _mm512_castsi512_si256(all); }
#elif defined(__AVX2__)
typedef __m256i Spread;
inline Spread spread(const void* value) { return _mm256_set1_epi32(*static_cast<const int32_t*>(value)); }
inline __m256i half_of(Spread all) { return all; }
#endif

#if defined(__AVX2__)
inline i32h dot4(i32h acc, Spread counts, const int8_t* w) {
    const __m256i rows = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
    const __m256i c = half_of(counts);
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return (i32h)_mm256_dpbusd_epi32((__m256i)acc, c, rows);
#else
    // Counts are at most 127, so the pairs cannot saturate: see Model.
    const __m256i sums = _mm256_madd_epi16(_mm256_maddubs_epi16(c, rows), _mm256_set1_epi16(1));
    return (i32h)_mm256_add_epi32((__m256i)acc, sums);
#endif
}
inline i32h dot2(i32h acc, Spread counts, const int16_t* w) {
    const __m256i rows = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
    const __m256i c = half_of(counts);
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return (i32h)_mm256_dpwssd_epi32((__m256i)acc, c, rows);
#else
    return (i32h)_mm256_add_epi32((__m256i)acc, _mm256_madd_epi16(c, rows));
#endif
}
#else
typedef uint32_t Spread;
inline Spread spread(const void* value) {
    uint32_t word;
    __builtin_memcpy(&word, value, 4);
    return word;
}

// Four lanes at a time: a half has two quarters.
typedef int32_t i32q __attribute__((vector_size(16), aligned(4), may_alias));

inline i32q dot4(i32q acc, uint32_t counts, const int8_t* w) {
#if defined(__ARM_FEATURE_DOTPROD)
    // Counts are at most 127, so they may be read as signed.
    return (i32q)vdotq_s32((int32x4_t)acc, vld1q_s8(w), vreinterpretq_s8_u32(vdupq_n_u32(counts)));
#elif defined(__ARM_NEON) && defined(__aarch64__)
    const int8x8_t c = vreinterpret_s8_u32(vdup_n_u32(counts));
    const int8x16_t rows = vld1q_s8(w);
    // 2 * 127 * 127 fits 16 bits.
    const int16x8_t low = vmull_s8(vget_low_s8(rows), c), high = vmull_s8(vget_high_s8(rows), c);
    return (i32q)vpadalq_s16((int32x4_t)acc, vpaddq_s16(low, high));
#else
    for (int lane = 0; lane < 4; ++lane)
        for (int j = 0; j < 4; ++j) acc[lane] += static_cast<int32_t>((counts >> (8 * j)) & 255u) * w[4 * lane + j];
    return acc;
#endif
}

inline i32q dot2(i32q acc, uint32_t counts, const int16_t* w) {
    const int32_t low = static_cast<int32_t>(counts & 65535u), high = static_cast<int32_t>(counts >> 16);
    for (int lane = 0; lane < 4; ++lane) acc[lane] += low * w[2 * lane] + high * w[2 * lane + 1];
    return acc;
}

#define FS_TWICE(name, Weight, fold)                                       \
    inline i32h name(i32h acc, Spread counts, const Weight* w) {           \
        union {                                                            \
            i32h whole;                                                    \
            i32q part[2];                                                  \
        } sum;                                                             \
        sum.whole = acc;                                                   \
        sum.part[0] = name(sum.part[0], counts, w);                        \
        sum.part[1] = name(sum.part[1], counts, w + 4 * fold);             \
        return sum.whole;                                                  \
    }
FS_TWICE(dot4, int8_t, 4)
FS_TWICE(dot2, int16_t, 2)
#undef FS_TWICE
#endif

#if defined(__AVX512VNNI__) && defined(__AVX512F__)
inline i32v dot4(i32v acc, Spread counts, const int8_t* w) {
    return (i32v)_mm512_dpbusd_epi32((__m512i)acc, counts, _mm512_loadu_si512(w));
}
inline i32v dot2(i32v acc, Spread counts, const int16_t* w) {
    return (i32v)_mm512_dpwssd_epi32((__m512i)acc, counts, _mm512_loadu_si512(w));
}
#else
#define FS_TWICE(name, Weight, fold)                                       \
    inline i32v name(i32v acc, Spread counts, const Weight* w) {           \
        union {                                                            \
            i32v whole;                                                    \
            i32h half[2];                                                  \
        } sum;                                                             \
        sum.whole = acc;                                                   \
        sum.half[0] = name(sum.half[0], counts, w);                        \
        sum.half[1] = name(sum.half[1], counts, w + 8 * fold);             \
        return sum.whole;                                                  \
    }
FS_TWICE(dot4, int8_t, 4)
FS_TWICE(dot2, int16_t, 2)
#undef FS_TWICE
#endif

// ---------------------------------------------------------------- the kinds

struct F32 {
    using Vector = f32v;
    using Half = f32h;
    using Scalar = float;
    using Weight = float;
    using Value = float;
    static constexpr int fold = 1;
    // Not a template: template arguments lose the alignment that these types allow.
#if defined(__AVX512F__)
    using All = Spread;
    static inline All all(const float* value) { return spread(value); }
    static inline f32v add(f32v acc, All value, const float* w) {
        return acc + (f32v)value * *reinterpret_cast<const f32v*>(w);
    }
    static inline f32h add(f32h acc, All value, const float* w) {
        return acc + (f32h)half_of(value) * *reinterpret_cast<const f32h*>(w);
    }
#else
    using All = float;
    static inline All all(const float* value) { return *value; }
    static inline f32v add(f32v acc, float value, const float* w) {
        return acc + value * *reinterpret_cast<const f32v*>(w);
    }
    static inline f32h add(f32h acc, float value, const float* w) {
        return acc + value * *reinterpret_cast<const f32h*>(w);
    }
#endif
};

struct I16 {
    using Vector = i32v;
    using Half = i32h;
    using Scalar = int32_t;
    using Weight = int16_t;
    using Value = uint32_t;
    static constexpr int fold = 2;
    using All = Spread;
    static inline All all(const void* value) { return spread(value); }
    static inline i32v add(i32v acc, All value, const int16_t* w) { return dot2(acc, value, w); }
    static inline i32h add(i32h acc, All value, const int16_t* w) { return dot2(acc, value, w); }
};

struct I8 {
    using Vector = i32v;
    using Half = i32h;
    using Scalar = int32_t;
    using Weight = int8_t;
    using Value = uint32_t;
    static constexpr int fold = 4;
    using All = Spread;
    static inline All all(const void* value) { return spread(value); }
    static inline i32v add(i32v acc, All value, const int8_t* w) { return dot4(acc, value, w); }
    static inline i32h add(i32h acc, All value, const int8_t* w) { return dot4(acc, value, w); }
};

// The weights of one input: where its whole vectors and its odd half begin.
template <class K>
struct Row {
    const typename K::Weight *whole, *odd;
};

// All rows of a block of H halves.
template <class K, int H>
struct Rows {
    static constexpr ptrdiff_t whole_size = static_cast<ptrdiff_t>(H / 2) * kLanes * K::fold;
    static constexpr ptrdiff_t odd_size = static_cast<ptrdiff_t>(H % 2) * kHalf * K::fold;
    const typename K::Weight *whole, *odd;

    Rows(const Grid& g, const void* weights) : whole(static_cast<const typename K::Weight*>(weights)) {
        odd = whole + static_cast<ptrdiff_t>(g.kh) * g.kw * g.inputs * whole_size;
    }
    inline Row<K> at(ptrdiff_t row) const { return {whole + row * whole_size, odd + row * odd_size}; }
};

// The sums of one block of output channels, H vectors of 8: pairs of them as vectors of 16, and an odd one at the end.
template <class K, int H>
struct Sum {
    static constexpr int full = H / 2;
    static constexpr bool odd = H % 2;
    typename K::Vector vector[full ? full : 1];
    typename K::Half half;

    inline void clear() {
        FS_UNROLL
        for (int v = 0; v < full; ++v) vector[v] = typename K::Vector{};
        if constexpr (odd) half = typename K::Half{};
    }
    inline void load(const typename K::Scalar* from) {
        FS_UNROLL
        for (int v = 0; v < full; ++v) vector[v] = *reinterpret_cast<const typename K::Vector*>(from + v * kLanes);
        if constexpr (odd) half = *reinterpret_cast<const typename K::Half*>(from + full * kLanes);
    }
    inline void store(typename K::Scalar* to) const {
        FS_UNROLL
        for (int v = 0; v < full; ++v) *reinterpret_cast<typename K::Vector*>(to + v * kLanes) = vector[v];
        if constexpr (odd) *reinterpret_cast<typename K::Half*>(to + full * kLanes) = half;
    }
    inline void add(typename K::All value, Row<K> row) {
        FS_UNROLL
        for (int v = 0; v < full; ++v) vector[v] = K::add(vector[v], value, row.whole + v * kLanes * K::fold);
        if constexpr (odd) half = K::add(half, value, row.odd);
    }
    inline void add(const Sum& other) {
        FS_UNROLL
        for (int v = 0; v < full; ++v) vector[v] += other.vector[v];
        if constexpr (odd) half += other.half;
    }
};

}  // namespace
}  // namespace firstspike::FS_ISA
