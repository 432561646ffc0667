// Refuses a kernel that takes more scratch memory than its plan left.
#include "simd/scratch.h"

#include <fmt/format.h>

#include <stdexcept>

namespace qkv::inline simd {

void ScratchRoom::refuse(std::size_t bytes, std::size_t left) {
  throw std::logic_error(fmt::format("a kernel takes {} bytes of scratch, its plan left {}", bytes, left));
}

}  // namespace qkv::inline simd
