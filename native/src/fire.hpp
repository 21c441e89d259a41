// Who fires. For kernels.cpp only.
#pragma once
#include "lanes.hpp"

namespace firstspike::FS_ISA {
namespace {

inline uint32_t reaches(const float* acc, const float* theta) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask(_mm512_loadu_ps(acc), _mm512_loadu_ps(theta), _CMP_GE_OQ);
#else
    uint32_t mask = 0;
    for (int lane = 0; lane < kLanes; ++lane) mask |= static_cast<uint32_t>(acc[lane] >= theta[lane]) << lane;
    return mask;
#endif
}

// Those with acc + more >= theta.
inline uint32_t reaches(const int32_t* acc, const int32_t* theta, int32_t more = 0) {
#if defined(__AVX512F__)
    const __m512i sum = _mm512_add_epi32(_mm512_loadu_si512(acc), _mm512_set1_epi32(more));
    return _mm512_cmp_epi32_mask(sum, _mm512_loadu_si512(theta), _MM_CMPINT_NLT);
#else
    uint32_t mask = 0;
    for (int lane = 0; lane < kLanes; ++lane) mask |= static_cast<uint32_t>(acc[lane] + more >= theta[lane]) << lane;
    return mask;
#endif
}

// Note the time of those in `mask` that have not fired, and return them.
inline uint32_t note(uint32_t mask, uint8_t* times, const Moment& now) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    const __m128i silent = _mm_set1_epi8(static_cast<char>(now.T)), time = _mm_set1_epi8(static_cast<char>(now.t));
    __m128i* at = reinterpret_cast<__m128i*>(times);
    if (now.fresh) {
        _mm_storeu_si128(at, _mm_mask_mov_epi8(silent, static_cast<__mmask16>(mask), time));
        return mask;
    }
    if (!mask) return 0;
    const __m128i before = _mm_loadu_si128(at);
    mask &= _mm_cmpeq_epi8_mask(before, silent);
    if (mask) _mm_storeu_si128(at, _mm_mask_mov_epi8(before, static_cast<__mmask16>(mask), time));
    return mask;
#else
    if (!now.fresh && !mask) return 0;
    for (int lane = 0; lane < kLanes; ++lane) {
        const bool first = ((mask >> lane) & 1u) && (now.fresh || times[lane] == now.T);
        if (now.fresh) times[lane] = static_cast<uint8_t>(now.T);
        if (first)
            times[lane] = static_cast<uint8_t>(now.t);
        else
            mask &= ~(1u << lane);
    }
    return mask;
#endif
}

// Spikes of several neurons that count at one place.
#if defined(__AVX512BW__) && defined(__AVX512VL__)
struct Count {
    __m128i sum = _mm_setzero_si128();
    inline void add(uint32_t mask) {
        sum = _mm_mask_adds_epu8(sum, static_cast<__mmask16>(mask), sum, _mm_set1_epi8(1));
    }
    inline void store(uint8_t* counts, bool saturate) const {
        const __m128i total = saturate ? _mm_min_epu8(sum, _mm_set1_epi8(1)) : sum;
        _mm_storeu_si128(reinterpret_cast<__m128i*>(counts), total);
    }
};
#else
struct Count {
    uint8_t sum[kLanes] = {};
    inline void add(uint32_t mask) {
        for (int lane = 0; lane < kLanes; ++lane)
            sum[lane] = static_cast<uint8_t>(sum[lane] + (sum[lane] < 255 ? (mask >> lane) & 1u : 0u));
    }
    inline void store(uint8_t* counts, bool saturate) const {
        for (int lane = 0; lane < kLanes; ++lane) counts[lane] = saturate && sum[lane] ? 1 : sum[lane];
    }
};
#endif

// Every target gets its count at every step, so that nothing has to be cleared. above(place, lane): who is at the
// threshold, of 16 neurons.
template <class Above>
inline int64_t fire_groups(const Grid& g, const Groups& groups, const Moment& now, uint8_t* times, uint8_t* counts,
                           const Above& above) {
    int64_t spikes = 0;
    for (int32_t group = 0; group < groups.count; ++group) {
        const int32_t from = groups.start[group], to = groups.start[group + 1], target = groups.target[group];
        for (int lane = 0; lane < g.stride; lane += kLanes) {
            Count count;
            for (int32_t member = from; member < to; ++member) {
                const int32_t place = groups.place[member];
                uint8_t* at = times + static_cast<size_t>(place) * g.stride + lane;
                const uint32_t fired = note(above(place, lane), at, now);
                count.add(fired);
                spikes += __builtin_popcount(fired);
            }
            if (target >= 0) count.store(counts + target + lane, now.saturate);
        }
    }
    return spikes;
}

// The common cases are compiled by themselves.
template <class Above>
inline int64_t fire_all(const Grid& g, const Groups& groups, const Moment& now, uint8_t* times, uint8_t* counts,
                        const Above& above) {
    if (now.fresh && !now.saturate) {
        const Moment first{0, now.T, true, false};
        return fire_groups(g, groups, first, times, counts, above);
    }
    return fire_groups(g, groups, now, times, counts, above);
}

template <class Scalar>
int64_t fire(const Grid& g, const Groups& groups, const Moment& now, const Scalar* acc, const Scalar* theta,
             uint8_t* times, uint8_t* counts) {
    return fire_all(g, groups, now, times, counts, [&](int32_t place, int lane) {
        return reaches(acc + static_cast<size_t>(place) * g.stride + lane, theta + lane);
    });
}

// ---------------------------------------------------------------- leaky neurons

void leak_f32(const Grid& g, const float* current, const float* bias, float tau, bool fresh, float* membrane) {
    for (int32_t position = 0; position < g.positions(); ++position, current += g.stride, membrane += g.stride)
        for (int32_t c = 0; c < g.stride; ++c) {
            const float before = fresh ? 0.0f : membrane[c];
            membrane[c] = before + (current[c] + bias[c] - before) / tau;
        }
}

void leak_i32(const Grid& g, const int32_t* current, const float* unit, const float* bias, float tau, bool fresh,
              float* membrane) {
    for (int32_t position = 0; position < g.positions(); ++position, current += g.stride, membrane += g.stride)
        for (int32_t c = 0; c < g.stride; ++c) {
            const float before = fresh ? 0.0f : membrane[c];
            membrane[c] = before + (static_cast<float>(current[c]) * unit[c] + bias[c] - before) / tau;
        }
}

}  // namespace
}  // namespace firstspike::FS_ISA
