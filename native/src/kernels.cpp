// See kernels.hpp. FS_ISA names this build of the file. Nothing of the standard library with code in it may be
// included here: the linker could pick its copy with AVX-512 in it for machines that have none.
#include "kernels.hpp"

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#ifndef FS_ISA
#define FS_ISA portable
#endif
#define FS_TEXT_OF(name) #name
#define FS_TEXT(name) FS_TEXT_OF(name)

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
#else
constexpr int kRegisters = 4;
#endif

constexpr int most(int halves) {
    const int positions = kRegisters / ((halves + 1) / 2);
    return positions > 8 ? 8 : positions < 1 ? 1 : positions;
}

#define FS_UNROLL _Pragma("GCC unroll 32")

// ---------------------------------------------------------------- int8 products of four inputs at a time

#if defined(__AVX2__)
inline i32h dot4(i32h acc, uint32_t counts, const int8_t* w) {
    const __m256i rows = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
    const __m256i c = _mm256_set1_epi32(static_cast<int>(counts));
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return (i32h)_mm256_dpbusd_epi32((__m256i)acc, c, rows);
#else
    // Counts are at most 127, so the pairs cannot saturate: see Model.
    const __m256i sums = _mm256_madd_epi16(_mm256_maddubs_epi16(c, rows), _mm256_set1_epi16(1));
    return (i32h)_mm256_add_epi32((__m256i)acc, sums);
#endif
}
#endif

inline int32_t dot4_lane(uint32_t counts, const int8_t* w) {
    int32_t sum = 0;
    for (size_t j = 0; j < 4; ++j) sum += static_cast<int32_t>((counts >> (8 * j)) & 255u) * w[j];
    return sum;
}

#if !defined(__AVX2__)
inline i32h dot4(i32h acc, uint32_t counts, const int8_t* w) {
    for (int lane = 0; lane < 8; ++lane) acc[lane] += dot4_lane(counts, w + 4 * lane);
    return acc;
}
#endif

inline i32v dot4(i32v acc, uint32_t counts, const int8_t* w) {
#if defined(__AVX512VNNI__) && defined(__AVX512F__)
    const __m512i rows = _mm512_loadu_si512(w);
    return (i32v)_mm512_dpbusd_epi32((__m512i)acc, _mm512_set1_epi32(static_cast<int>(counts)), rows);
#elif defined(__AVX2__)
    union {
        i32v whole;
        i32h half[2];
    } sum;
    sum.whole = acc;
    sum.half[0] = dot4(sum.half[0], counts, w);
    sum.half[1] = dot4(sum.half[1], counts, w + 32);
    return sum.whole;
#else
    for (int lane = 0; lane < kLanes; ++lane) acc[lane] += dot4_lane(counts, w + 4 * lane);
    return acc;
#endif
}

inline uint32_t load_u32(const uint8_t* at) {
    uint32_t value;
    __builtin_memcpy(&value, at, 4);
    return value;
}

// ---------------------------------------------------------------- what differs between float32 and int8

struct F32 {
    using Vector = f32v;
    using Half = f32h;
    using Scalar = float;
    using Weight = float;
    using Value = float;
    static constexpr int fold = 1;  // inputs of one event
    // Not a template: template arguments lose the alignment that these types allow.
    static inline f32v add(f32v acc, float value, const float* w) {
        return acc + value * *reinterpret_cast<const f32v*>(w);
    }
    static inline f32h add(f32h acc, float value, const float* w) {
        return acc + value * *reinterpret_cast<const f32h*>(w);
    }
    static inline int inputs(const Grid& g) { return g.channels; }
};

struct I8 {
    using Vector = i32v;
    using Half = i32h;
    using Scalar = int32_t;
    using Weight = int8_t;
    using Value = uint32_t;
    static constexpr int fold = 4;
    static inline i32v add(i32v acc, uint32_t value, const int8_t* w) { return dot4(acc, value, w); }
    static inline i32h add(i32h acc, uint32_t value, const int8_t* w) { return dot4(acc, value, w); }
    static inline int inputs(const Grid& g) { return g.groups; }
};

// The sums of one block of output channels, H vectors of 8: pairs of them as vectors of 16, and an odd one at the end.
template <class K, int H>
struct Sum {
    static constexpr int full = H / 2;
    static constexpr bool odd = H % 2;
    static constexpr size_t row = static_cast<size_t>(H) * 8 * K::fold;  // weights of one event
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
    inline void add(typename K::Value value, const typename K::Weight* w) {
        FS_UNROLL
        for (int v = 0; v < full; ++v) vector[v] = K::add(vector[v], value, w + v * kLanes * K::fold);
        if constexpr (odd) half = K::add(half, value, w + full * kLanes * K::fold);
    }
    inline void add(const Sum& other) {
        FS_UNROLL
        for (int v = 0; v < full; ++v) vector[v] += other.vector[v];
        if constexpr (odd) half += other.half;
    }
};

// ---------------------------------------------------------------- gathering events

template <class K, int H>
inline void prefetch(const typename K::Weight* row) {
    const char* at = reinterpret_cast<const char*>(row);
    FS_UNROLL
    for (size_t line = 0; line < Sum<K, H>::row * sizeof(typename K::Weight); line += 64) __builtin_prefetch(at + line);
}

// The events [from, to) of one kernel row into one output position.
template <class K, int H, bool Far>
inline void gather_position(const typename K::Weight* w, const int32_t* offset, const typename K::Value* value,
                            int32_t from, int32_t to, int32_t origin, Sum<K, H>& sum) {
    // A product takes about four cycles: few vectors a row need several chains.
    constexpr int chains = H >= 8 ? 1 : H >= 3 ? 2 : 4;
    constexpr int32_t ahead = 8;
    Sum<K, H> more[chains];
    FS_UNROLL
    for (int j = 1; j < chains; ++j) more[j].clear();
    const auto row = [&](int32_t e) { return w + static_cast<size_t>(offset[e] - origin) * Sum<K, H>::row; };
    int32_t e = from;
    for (; e + chains <= to; e += chains) {
        if constexpr (Far) {
            FS_UNROLL
            for (int j = 0; j < chains; ++j) prefetch<K, H>(row(e + j + ahead < to ? e + j + ahead : to - 1));
        }
        sum.add(value[e], row(e));
        FS_UNROLL
        for (int j = 1; j < chains; ++j) more[j].add(value[e + j], row(e + j));
    }
    for (; e < to; ++e) sum.add(value[e], row(e));
    FS_UNROLL
    for (int j = 1; j < chains; ++j) sum.add(more[j]);
}

// Kernel rows outermost when a block's weights exceed the first-level cache: one kernel row of them stays there.
constexpr size_t kCacheBytes = 28 * 1024;

template <class K, int H>
void gather(const Grid& g, const typename K::Weight* weights, const Events<typename K::Value>& events,
            typename K::Scalar* acc, bool fresh, int y0, int y1) {
    const int inputs = K::inputs(g);
    const size_t row_weights = static_cast<size_t>(g.kw) * static_cast<size_t>(inputs) * Sum<K, H>::row;
    if (g.out_rows * g.out_cols == 1) {  // a fully connected layer reads each weight once: fetch it in time
        Sum<K, H> sum;
        fresh ? sum.clear() : sum.load(acc);
        for (int ky = 0; ky < g.kh; ++ky) {
            const int32_t* start = events.start + static_cast<size_t>(ky) * (g.cols + 1);
            gather_position<K, H, true>(weights + ky * row_weights, events.offset, events.value, start[0], start[g.kw],
                                        0, sum);
        }
        sum.store(acc);
        return;
    }
    const bool split =
        g.kh > 1 && static_cast<size_t>(g.kh) * row_weights * sizeof(typename K::Weight) > kCacheBytes;
    const int passes = split ? g.kh : 1, height = split ? 1 : g.kh;
    for (int pass = 0; pass < passes; ++pass) {
        const bool set = fresh && pass == 0;
        for (int y = y0; y < y1; ++y) {
            typename K::Scalar* out = acc + static_cast<size_t>(y) * g.out_cols * g.stride;
            for (int x = 0; x < g.out_cols; ++x, out += g.stride) {
                Sum<K, H> sum;
                bool touched = set;
                if (set) sum.clear();
                for (int ky = pass; ky < pass + height; ++ky) {
                    const int32_t* start = events.start + static_cast<size_t>(y + ky) * (g.cols + 1) + x;
                    const int32_t from = start[0], to = start[g.kw];
                    if (from == to) continue;
                    if (!touched) sum.load(out);
                    touched = true;
                    gather_position<K, H, false>(weights + ky * row_weights, events.offset, events.value, from, to,
                                                 x * inputs, sum);
                }
                if (touched) sum.store(out);
            }
        }
    }
}

// ---------------------------------------------------------------- dense products

// P neighbouring output positions of one row. `input` is the first input value of the first position.
template <class K, int H, int P>
inline void tile(const Grid& g, const typename K::Weight* w, const void* map, int y, int x, typename K::Scalar* acc,
                 bool fresh) {
    typename K::Scalar* out = acc + (static_cast<size_t>(y) * g.out_cols + x) * g.stride;
    Sum<K, H> sum[P];
    FS_UNROLL
    for (int p = 0; p < P; ++p) fresh ? sum[p].clear() : sum[p].load(out + static_cast<size_t>(p) * g.stride);
    const size_t position = static_cast<size_t>(y) * g.cols + x;
    if constexpr (K::fold == 1) {
        const float* input = static_cast<const float*>(map) + position * g.channels;
        const int span = g.kw * g.channels;  // neighbouring columns are contiguous
        const size_t pitch = static_cast<size_t>(g.cols) * g.channels;
        for (int ky = 0; ky < g.kh; ++ky, input += pitch)
            for (int j = 0; j < span; ++j, w += Sum<K, H>::row) {
                FS_UNROLL
                for (int p = 0; p < P; ++p) sum[p].add(input[p * g.channels + j], w);
            }
    } else {
        const uint8_t* input = static_cast<const uint8_t*>(map) + position * g.cell;
        const size_t pitch = static_cast<size_t>(g.cols) * g.cell;
        for (int ky = 0; ky < g.kh; ++ky, input += pitch)
            for (int kx = 0; kx < g.kw; ++kx) {
                const uint8_t* cell = input + static_cast<size_t>(kx) * g.cell;
                for (int group = 0; group < g.groups; ++group, w += Sum<K, H>::row) {
                    FS_UNROLL
                    for (int p = 0; p < P; ++p)
                        sum[p].add(load_u32(cell + static_cast<size_t>(p) * g.cell + 4 * group), w);
                }
            }
    }
    FS_UNROLL
    for (int p = 0; p < P; ++p) sum[p].store(out + static_cast<size_t>(p) * g.stride);
}

template <class K, int H, int P>
inline void tiles(const Grid& g, const typename K::Weight* w, const void* map, int y, int x, typename K::Scalar* acc,
                  bool fresh) {
    for (; x + P <= g.out_cols; x += P) tile<K, H, P>(g, w, map, y, x, acc, fresh);
    if constexpr (P > 1) tiles<K, H, P / 2>(g, w, map, y, x, acc, fresh);
}

template <class K, int H>
void dense(const Grid& g, const typename K::Weight* w, const void* map, typename K::Scalar* acc, bool fresh, int y0,
           int y1) {
    for (int y = y0; y < y1; ++y) tiles<K, H, most(H)>(g, w, map, y, 0, acc, fresh);
}

#define FS_BY_HALVES(call)          \
    switch (halves) {               \
        case 1: call(1); break;     \
        case 2: call(2); break;     \
        case 3: call(3); break;     \
        case 4: call(4); break;     \
        case 5: call(5); break;     \
        case 6: call(6); break;     \
        case 7: call(7); break;     \
        case 8: call(8); break;     \
        case 9: call(9); break;     \
        case 10: call(10); break;   \
        case 11: call(11); break;   \
        case 12: call(12); break;   \
        case 13: call(13); break;   \
        case 14: call(14); break;   \
        case 15: call(15); break;   \
        default: call(16); break;   \
    }

void gather_f32(const Grid& g, const float* w, int halves, const Events<float>& events, float* acc, bool fresh, int y0,
                int y1) {
#define FS_CALL(N) gather<F32, N>(g, w, events, acc, fresh, y0, y1)
    FS_BY_HALVES(FS_CALL)
#undef FS_CALL
}

void gather_i8(const Grid& g, const int8_t* w, int halves, const Events<uint32_t>& events, int32_t* acc, bool fresh,
               int y0, int y1) {
#define FS_CALL(N) gather<I8, N>(g, w, events, acc, fresh, y0, y1)
    FS_BY_HALVES(FS_CALL)
#undef FS_CALL
}

void dense_f32(const Grid& g, const float* w, int halves, const float* map, float* acc, bool fresh, int y0, int y1) {
#define FS_CALL(N) dense<F32, N>(g, w, map, acc, fresh, y0, y1)
    FS_BY_HALVES(FS_CALL)
#undef FS_CALL
}

void dense_i8(const Grid& g, const int8_t* w, int halves, const uint8_t* counts, int32_t* acc, bool fresh, int y0,
              int y1) {
#define FS_CALL(N) dense<I8, N>(g, w, counts, acc, fresh, y0, y1)
    FS_BY_HALVES(FS_CALL)
#undef FS_CALL
}

// ---------------------------------------------------------------- lists and maps of counts

int32_t list_f32(const Grid& g, const uint8_t* counts, int32_t* offset, float* value, int32_t* start) {
    int32_t n = 0;
    for (int r = 0; r < g.rows; ++r) {
        for (int x = 0; x < g.cols; ++x, counts += g.cell) {
            *start++ = n;
            const int32_t base = x * g.channels;
            for (int c = 0; c < g.cell; c += kLanes) {  // the padding of a cell is always zero
#if defined(__AVX512F__) && defined(__AVX512VL__) && defined(__AVX512BW__)
                const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(counts + c));
                const __mmask16 set = _mm_test_epi8_mask(bytes, bytes);
                if (!set) continue;
                const __m512i lane =
                    _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
                const __m512i at = _mm512_add_epi32(lane, _mm512_set1_epi32(base + c));
                const __m512 wide = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
                _mm512_storeu_si512(offset + n, _mm512_maskz_compress_epi32(set, at));
                _mm512_storeu_ps(value + n, _mm512_maskz_compress_ps(set, wide));
                n += __builtin_popcount(set);
#else
                uint64_t words[2];
                __builtin_memcpy(words, counts + c, 16);
                if (!(words[0] | words[1])) continue;
                for (int lane = 0; lane < kLanes; ++lane) {
                    offset[n] = base + c + lane;
                    value[n] = static_cast<float>(counts[c + lane]);
                    n += counts[c + lane] != 0;
                }
#endif
            }
        }
        *start++ = n;
    }
    return n;
}

int32_t list_i8(const Grid& g, const uint8_t* counts, int32_t* offset, uint32_t* value, int32_t* start) {
    int32_t n = 0;
    for (int r = 0; r < g.rows; ++r) {
        for (int x = 0; x < g.cols; ++x, counts += g.cell) {
            *start++ = n;
            const int32_t base = x * g.groups;
#if defined(__AVX512F__) && defined(__AVX512VL__) && defined(__AVX512BW__)
            const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            for (int group = 0; group < g.groups; group += kLanes) {
                const int left = g.groups - group;
                const __mmask16 there = static_cast<__mmask16>(left >= kLanes ? 0xffff : (1 << left) - 1);
                const __m512i words = _mm512_maskz_loadu_epi32(there, counts + 4 * group);
                const __mmask16 set = _mm512_test_epi32_mask(words, words);
                if (!set) continue;
                const __m512i at = _mm512_add_epi32(lane, _mm512_set1_epi32(base + group));
                _mm512_storeu_si512(offset + n, _mm512_maskz_compress_epi32(set, at));
                _mm512_storeu_si512(value + n, _mm512_maskz_compress_epi32(set, words));
                n += __builtin_popcount(set);
            }
#else
            for (int group = 0; group < g.groups; ++group) {
                const uint32_t word = load_u32(counts + 4 * group);
                offset[n] = base + group;
                value[n] = word;
                n += word != 0;
            }
#endif
        }
        *start++ = n;
    }
    return n;
}

void widen(const Grid& g, const uint8_t* counts, float* map) {
    const int64_t cells = static_cast<int64_t>(g.rows) * g.cols;
    for (int64_t cell = 0; cell < cells; ++cell, counts += g.cell, map += g.channels)
        for (int c = 0; c < g.channels; ++c) map[c] = static_cast<float>(counts[c]);
}

// ---------------------------------------------------------------- firing

inline uint32_t reaches(const float* acc, const float* theta) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask(_mm512_loadu_ps(acc), _mm512_loadu_ps(theta), _CMP_GE_OQ);
#else
    uint32_t mask = 0;
    for (int lane = 0; lane < kLanes; ++lane) mask |= static_cast<uint32_t>(acc[lane] >= theta[lane]) << lane;
    return mask;
#endif
}

inline uint32_t reaches(const int32_t* acc, const int32_t* theta) {
#if defined(__AVX512F__)
    return _mm512_cmp_epi32_mask(_mm512_loadu_si512(acc), _mm512_loadu_si512(theta), _MM_CMPINT_NLT);
#else
    uint32_t mask = 0;
    for (int lane = 0; lane < kLanes; ++lane) mask |= static_cast<uint32_t>(acc[lane] >= theta[lane]) << lane;
    return mask;
#endif
}

// Note the time of those in `mask` that have not fired, and return them.
inline uint32_t note(uint32_t mask, uint8_t* times, int t, int T, bool fresh) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    const __m128i silent = _mm_set1_epi8(static_cast<char>(T)), now = _mm_set1_epi8(static_cast<char>(t));
    __m128i* at = reinterpret_cast<__m128i*>(times);
    if (fresh) {
        _mm_storeu_si128(at, _mm_mask_mov_epi8(silent, static_cast<__mmask16>(mask), now));
        return mask;
    }
    if (!mask) return 0;
    const __m128i before = _mm_loadu_si128(at);
    mask &= _mm_cmpeq_epi8_mask(before, silent);
    if (mask) _mm_storeu_si128(at, _mm_mask_mov_epi8(before, static_cast<__mmask16>(mask), now));
    return mask;
#else
    if (!fresh && !mask) return 0;
    for (int lane = 0; lane < kLanes; ++lane) {
        const bool first = ((mask >> lane) & 1u) && (fresh || times[lane] == T);
        if (fresh) times[lane] = static_cast<uint8_t>(T);
        if (first)
            times[lane] = static_cast<uint8_t>(t);
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
    inline void add(uint32_t mask) { sum = _mm_mask_add_epi8(sum, static_cast<__mmask16>(mask), sum, _mm_set1_epi8(1)); }
    inline void store(uint8_t* counts, bool saturate) const {
        __m128i* at = reinterpret_cast<__m128i*>(counts);
        const __m128i total = _mm_add_epi8(_mm_loadu_si128(at), sum);
        _mm_storeu_si128(at, saturate ? _mm_min_epu8(total, _mm_set1_epi8(1)) : total);
    }
};
#else
struct Count {
    uint8_t sum[kLanes] = {};
    inline void add(uint32_t mask) {
        for (int lane = 0; lane < kLanes; ++lane) sum[lane] = static_cast<uint8_t>(sum[lane] + ((mask >> lane) & 1u));
    }
    inline void store(uint8_t* counts, bool saturate) const {
        for (int lane = 0; lane < kLanes; ++lane) {
            const uint8_t total = static_cast<uint8_t>(counts[lane] + sum[lane]);
            counts[lane] = saturate && total ? 1 : total;
        }
    }
};
#endif

template <class Scalar>
int64_t fire(int32_t positions, int32_t stride, const Scalar* acc, const Scalar* theta, uint8_t* times, int t, int T,
             bool fresh, const int32_t* target, uint8_t* counts, bool saturate) {
    int64_t spikes = 0;
    for (int32_t position = 0; position < positions;) {
        // Neighbours that pooling brings together are counted together.
        const int32_t to = target ? target[position] : -1;
        int32_t run = 1;
        while (run < 255 && position + run < positions && target && target[position + run] == to) ++run;
        for (int lane = 0; lane < stride; lane += kLanes) {
            Count count;
            uint32_t any = 0;
            for (int32_t r = 0; r < run; ++r) {
                const size_t at = static_cast<size_t>(position + r) * stride + lane;
                const uint32_t fired = note(reaches(acc + at, theta + lane), times + at, t, T, fresh);
                any |= fired;
                count.add(fired);
                spikes += __builtin_popcount(fired);
            }
            if (any && to >= 0) count.store(counts + to + lane, saturate);
        }
        position += run;
    }
    return spikes;
}

int64_t fire_f32(int32_t positions, int32_t stride, const float* acc, const float* theta, uint8_t* times, int t, int T,
                 bool fresh, const int32_t* target, uint8_t* counts, bool saturate) {
    return fire(positions, stride, acc, theta, times, t, T, fresh, target, counts, saturate);
}

int64_t fire_i32(int32_t positions, int32_t stride, const int32_t* acc, const int32_t* theta, uint8_t* times, int t,
                 int T, bool fresh, const int32_t* target, uint8_t* counts, bool saturate) {
    return fire(positions, stride, acc, theta, times, t, T, fresh, target, counts, saturate);
}

// ---------------------------------------------------------------- leaky neurons

void leak_f32(int32_t positions, int32_t stride, const float* current, const float* bias, float tau, bool fresh,
              float* membrane) {
    for (int32_t position = 0; position < positions; ++position, current += stride, membrane += stride)
        for (int32_t c = 0; c < stride; ++c) {
            const float before = fresh ? 0.0f : membrane[c];
            membrane[c] = before + (current[c] + bias[c] - before) / tau;
        }
}

void leak_i32(int32_t positions, int32_t stride, const int32_t* current, const float* unit, const float* bias,
              float tau, bool fresh, float* membrane) {
    for (int32_t position = 0; position < positions; ++position, current += stride, membrane += stride)
        for (int32_t c = 0; c < stride; ++c) {
            const float before = fresh ? 0.0f : membrane[c];
            membrane[c] = before + (static_cast<float>(current[c]) * unit[c] + bias[c] - before) / tau;
        }
}

}  // namespace

extern const Kernels kernels;
const Kernels kernels = {FS_TEXT(FS_ISA), gather_f32, dense_f32, gather_i8, dense_i8, list_f32, list_i8,
                         widen,           fire_f32,   fire_i32,  leak_f32,  leak_i32};

}  // namespace firstspike::FS_ISA
