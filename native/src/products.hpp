// The current of a layer: events gathered at each output position, or dense products. For kernels.cpp only.
#pragma once
#include "lanes.hpp"

namespace firstspike::FS_ISA {
namespace {

// ---------------------------------------------------------------- gathering events

template <class K, int H>
inline void prefetch(Row<K> row) {
    const char* at = reinterpret_cast<const char*>(row.whole);
    FS_UNROLL
    for (int line = 0; line < H / 2; ++line) __builtin_prefetch(at + 64 * line);
    if constexpr (H % 2) __builtin_prefetch(row.odd);
}

// The events [from, to) of one kernel row into one output position; `shift` leads from an offset to its row.
template <class K, int H, bool Far>
inline void gather_position(const Rows<K, H>& rows, const int32_t* offset, const typename K::Value* value, int32_t from,
                            int32_t to, ptrdiff_t shift, Sum<K, H>& sum) {
    // A product takes about four cycles: few vectors a row need several chains.
    constexpr int chains = H >= 8 ? 1 : H >= 3 ? 2 : 4;
    constexpr int32_t ahead = 8;
    Sum<K, H> more[chains];
    FS_UNROLL
    for (int j = 1; j < chains; ++j) more[j].clear();
    const auto row = [&](int32_t e) { return rows.at(offset[e] + shift); };
    int32_t e = from;
    for (; e + chains <= to; e += chains) {
        if constexpr (Far) {
            FS_UNROLL
            for (int j = 0; j < chains; ++j) prefetch<K, H>(row(e + j + ahead < to ? e + j + ahead : to - 1));
        }
        sum.add(K::all(value + e), row(e));
        FS_UNROLL
        for (int j = 1; j < chains; ++j) more[j].add(K::all(value + e + j), row(e + j));
    }
    for (; e < to; ++e) sum.add(K::all(value + e), row(e));
    FS_UNROLL
    for (int j = 1; j < chains; ++j) sum.add(more[j]);
}

// Kernel rows outermost when a block's weights exceed the first-level cache: one kernel row of them stays there.
constexpr size_t kCacheBytes = 28 * 1024;

template <class K, int H>
void gather(const Grid& g, const void* weights, const Events& events, void* sums, bool fresh, int y0, int y1) {
    typename K::Scalar* acc = static_cast<typename K::Scalar*>(sums);
    const typename K::Value* value = static_cast<const typename K::Value*>(events.value);
    const Rows<K, H> rows(g, weights);
    const ptrdiff_t kernel_row = static_cast<ptrdiff_t>(g.kw) * g.inputs;
    if (g.positions() == 1) {  // a fully connected layer reads each weight once: fetch it in time
        Sum<K, H> sum;
        fresh ? sum.clear() : sum.load(acc);
        for (int ky = 0; ky < g.kh; ++ky) {
            const int32_t* start = events.start + static_cast<size_t>(ky) * (g.cols + 1);
            gather_position<K, H, true>(rows, events.offset, value, start[0], start[g.kw], ky * kernel_row, sum);
        }
        sum.store(acc);
        return;
    }
    const bool split = g.kh > 1 && static_cast<size_t>(g.kh * kernel_row) * H * kHalf * 4 > kCacheBytes;
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
                    gather_position<K, H, false>(rows, events.offset, value, from, to,
                                                 ky * kernel_row - static_cast<ptrdiff_t>(x) * g.inputs, sum);
                }
                if (touched) sum.store(out);
            }
        }
    }
}

// ---------------------------------------------------------------- dense products

constexpr int most(int halves) {
    const int positions = kRegisters / ((halves + 1) / 2);
    return positions > 8 ? 8 : positions < 1 ? 1 : positions;
}

// P neighbouring output positions of one row.
template <class K, int H, int P>
inline void tile(const Grid& g, const Rows<K, H>& rows, const void* map, int y, int x, typename K::Scalar* acc,
                 bool fresh) {
    typename K::Scalar* out = acc + (static_cast<size_t>(y) * g.out_cols + x) * g.stride;
    Sum<K, H> sum[P];
    FS_UNROLL
    for (int p = 0; p < P; ++p) fresh ? sum[p].clear() : sum[p].load(out + static_cast<size_t>(p) * g.stride);
    const size_t position = static_cast<size_t>(y) * g.cols + x;
    ptrdiff_t row = 0;
    if constexpr (K::fold < 4) {
        const typename K::Value* input = static_cast<const typename K::Value*>(map) + position * g.inputs;
        const int span = g.kw * g.inputs;  // neighbouring columns are contiguous
        const size_t pitch = static_cast<size_t>(g.cols) * g.inputs;
        for (int ky = 0; ky < g.kh; ++ky, input += pitch)
            for (int j = 0; j < span; ++j, ++row) {
                FS_UNROLL
                for (int p = 0; p < P; ++p) sum[p].add(K::all(input + p * g.inputs + j), rows.at(row));
            }
    } else {
        const uint8_t* input = static_cast<const uint8_t*>(map) + position * g.cell;
        const size_t pitch = static_cast<size_t>(g.cols) * g.cell;
        for (int ky = 0; ky < g.kh; ++ky, input += pitch)
            for (int kx = 0; kx < g.kw; ++kx) {
                const uint8_t* cell = input + static_cast<size_t>(kx) * g.cell;
                for (int group = 0; group < g.inputs; ++group, ++row) {
                    FS_UNROLL
                    for (int p = 0; p < P; ++p)
                        sum[p].add(K::all(cell + static_cast<size_t>(p) * g.cell + 4 * group), rows.at(row));
                }
            }
    }
    FS_UNROLL
    for (int p = 0; p < P; ++p) sum[p].store(out + static_cast<size_t>(p) * g.stride);
}

template <class K, int H, int P>
inline void tiles(const Grid& g, const Rows<K, H>& rows, const void* map, int y, int x, typename K::Scalar* acc,
                  bool fresh) {
    for (; x + P <= g.out_cols; x += P) tile<K, H, P>(g, rows, map, y, x, acc, fresh);
    if constexpr (P > 1) tiles<K, H, P / 2>(g, rows, map, y, x, acc, fresh);
}

template <class K, int H>
void dense(const Grid& g, const void* weights, const void* map, void* acc, bool fresh, int y0, int y1) {
    const Rows<K, H> rows(g, weights);
    for (int y = y0; y < y1; ++y)
        tiles<K, H, most(H)>(g, rows, map, y, 0, static_cast<typename K::Scalar*>(acc), fresh);
}

// ---------------------------------------------------------------- by the number of halves

template <class K, template <class, int> class Call, class... Given>
void by_halves(int halves, const Given&... given) {
    switch (halves) {
        case 1: return Call<K, 1>::run(given...);
        case 2: return Call<K, 2>::run(given...);
        case 3: return Call<K, 3>::run(given...);
        case 4: return Call<K, 4>::run(given...);
        case 5: return Call<K, 5>::run(given...);
        case 6: return Call<K, 6>::run(given...);
        case 7: return Call<K, 7>::run(given...);
        case 8: return Call<K, 8>::run(given...);
        case 9: return Call<K, 9>::run(given...);
        case 10: return Call<K, 10>::run(given...);
        case 11: return Call<K, 11>::run(given...);
        case 12: return Call<K, 12>::run(given...);
        case 13: return Call<K, 13>::run(given...);
        case 14: return Call<K, 14>::run(given...);
        case 15: return Call<K, 15>::run(given...);
        default: return Call<K, 16>::run(given...);
    }
}

template <class K, int H>
struct Gather {
    template <class... Given>
    static void run(const Given&... given) {
        gather<K, H>(given...);
    }
};

template <class K, int H>
struct Dense {
    template <class... Given>
    static void run(const Given&... given) {
        dense<K, H>(given...);
    }
};

template <class K>
void gather_block(const Grid& g, const void* weights, int halves, const Events& events, void* acc, bool fresh, int y0,
                  int y1) {
    by_halves<K, Gather>(halves, g, weights, events, acc, fresh, y0, y1);
}

template <class K>
void dense_block(const Grid& g, const void* weights, int halves, const void* map, void* acc, bool fresh, int y0,
                 int y1) {
    by_halves<K, Dense>(halves, g, weights, map, acc, fresh, y0, y1);
}

}  // namespace
}  // namespace firstspike::FS_ISA
