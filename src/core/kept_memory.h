// Blocks of memory for tensors and scratch. What is freed is kept for the next blocks, on large pages, so that the
// system need not clear its pages again: that is a tenth of the time to a first embedding.
#pragma once

#include <cstddef>

namespace qkv::inline core {

// Kept at most, in all. A freed block that would exceed it is kept in the place of others.
inline constexpr std::size_t kMostKeptBytes = std::size_t{512} << 20;

// Aligned to 64 bytes; elements are unspecified. std::bad_alloc.
std::byte* take_block(std::size_t bytes);
// What take_block() returned, or nullptr.
void free_block(std::byte* block) noexcept;

// What is kept now.
std::size_t kept_bytes();

// Whether blocks are taken from here, rather than from operator new. For tests that count its calls.
void set_keeping(bool wanted);

}  // namespace qkv::inline core
