// Asks glibc's allocator, which keeps freed blocks of up to 32 MiB, to let go of them; the end of the heap, which it
// shrinks by a rule that programs set, is left to it.
#include "core/release_memory.h"

#include <cstdlib>
#include <limits>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace qkv::inline core {

void release_memory() {
#ifdef __GLIBC__
  malloc_trim(std::numeric_limits<std::size_t>::max() / 2);  // all but the heap's end
#endif
}

}  // namespace qkv::inline core
