// See kernels.hpp. FS_ISA names this build of the file. Nothing of the standard library with code in it may be
// included here: the linker could pick its copy with AVX-512 in it for machines that have none.
#ifndef FS_ISA
#define FS_ISA portable
#endif

#include "fire.hpp"
#include "lists.hpp"
#include "products.hpp"
#include "rows.hpp"
#include "screen.hpp"

#define FS_TEXT_OF(name) #name
#define FS_TEXT(name) FS_TEXT_OF(name)

namespace firstspike::FS_ISA {

#if defined(__AVX2__)
constexpr bool kFastI16 = true;
#else
constexpr bool kFastI16 = false;
#endif

extern const Kernels kernels;
const Kernels kernels = {
    FS_TEXT(FS_ISA),
    kFastI16,
    {{gather_block<F32>, dense_block<F32>, list<F32>, widen_f32},
     {gather_block<I16>, dense_block<I16>, list<I16>, widen_i16},
     {gather_block<I8>, dense_block<I8>, list<I8>, nullptr}},
    {rows_conv<WordRows>, rows_linear<WordRows>},
    {rows_conv<ByteRows>, rows_linear<ByteRows>},
    list_rows,
    fire<float>,
    fire<int32_t>,
    fire_i16,
    tally,
    leak_f32,
    leak_i32,
};

}  // namespace firstspike::FS_ISA
