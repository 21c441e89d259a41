// Which kernels this machine can run.
#include <cstring>
#include <initializer_list>

#include "kernels.hpp"

namespace firstspike {

namespace portable {
extern const Kernels kernels;
}
#ifdef FS_X86
namespace avx2 {
extern const Kernels kernels;
}
namespace avx512 {
extern const Kernels kernels;
}
#endif

const Kernels* find_kernels(const char* name) {
    if (!std::strcmp(name, "portable")) return &portable::kernels;
#ifdef FS_X86
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2 && !std::strcmp(name, "avx2")) return &avx2::kernels;
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512vnni");
    if (avx512 && !std::strcmp(name, "avx512")) return &avx512::kernels;
#endif
    return nullptr;
}

const Kernels& best_kernels() {
    for (const char* name : {"avx512", "avx2"})
        if (const Kernels* found = find_kernels(name)) return *found;
    return portable::kernels;
}

}  // namespace firstspike
