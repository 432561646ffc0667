// Adds up the bytes of a call and refuses it beyond its limit.
#include "attention/call/memory_count.h"

#include "attention/call/view_checks.h"

namespace qkv::inline attending {

MemoryCount::MemoryCount(std::int64_t limit) : limit_(static_cast<std::size_t>(limit)) {
  if (limit < 0) fail("memory_limit must be 0 (none) or more bytes, got {}", limit);
}

void MemoryCount::keep(std::size_t bytes) {
  kept_ += bytes;
  borrow(0);
}

void MemoryCount::borrow(std::size_t bytes) {
  most_ = most_with(bytes);
  if (exceeds(most_)) refuse(most_);
}

void MemoryCount::refuse(std::size_t bytes) const {
  fail("one thread needs {} bytes besides inputs and outputs, memory_limit is {}", bytes, limit_);
}

}  // namespace qkv::inline attending
