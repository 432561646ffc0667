// The program.
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <limits>

#include "commands.h"
#include "program.h"

namespace {

// Memory comes from one heap that begins wide, on large pages, and never shrinks: to have the kernel clear pages one by
// one took a third of the time to a first embedding, and to have it clear them again an eighth of a training's.
void widen_heap() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  constexpr int kWidth = 512 << 20, kUsualStep = 128 << 10;  // of addresses: what is not touched takes no memory
  constexpr std::uintptr_t kLargePage = 1 << 21;
  const auto end_of_heap = [] { return reinterpret_cast<std::uintptr_t>(sbrk(0)); };
  const std::uintptr_t begin = (end_of_heap() + kLargePage - 1) / kLargePage * kLargePage;
  mallopt(M_TOP_PAD, kWidth);
  void* volatile block = std::malloc(kLargePage);  // more than the heap has so far; nothing where the system refuses
  std::free(block);
  mallopt(M_TOP_PAD, kUsualStep);
  if (const std::uintptr_t end = end_of_heap(); begin < end) {
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  }
}

}  // namespace

int main(int argc, char** argv) {
  widen_heap();
  return qkv::app::run_program(argc, argv, qkv::app::add_commands);
}
