// A kernel cannot take more of its scratch than was planned.
#include "simd/scratch.h"

namespace qkv {
namespace {

TEST(Scratch, GivesWhatWasPlannedAndNoMore) {
  Scratch scratch;
  ScratchRoom room = scratch.get(1024);
  std::byte* begin = room.take_bytes(0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(begin) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<std::byte*>(room.take<float>(16)), begin);
  ScratchRoom inner = room.take_room(128);
  EXPECT_EQ(reinterpret_cast<std::byte*>(inner.take<double>(16)), begin + 64);
  EXPECT_THROW(inner.take_bytes(1), std::logic_error);
  EXPECT_EQ(room.take_bytes(832), begin + 192);
  EXPECT_EQ(room.take_bytes(0), begin + 1024);
  EXPECT_THROW(room.take_bytes(1), std::logic_error);
  EXPECT_EQ(scratch.get(64).take_bytes(64), begin);
  EXPECT_THROW(scratch.get(1025), std::logic_error);
}

TEST(Scratch, BeginsWithZeros) {
  Scratch scratch;
  std::byte* begin = scratch.get(1024).take_bytes(1024);
  const auto is_fresh = [&] {
    return std::all_of(begin, begin + Scratch::kFreshBytes, [](std::byte x) { return x == std::byte{0}; });
  };
  EXPECT_TRUE(is_fresh());
  begin[Scratch::kFreshBytes - 1] = std::byte{1};
  scratch.get(1024);
  EXPECT_FALSE(is_fresh());
  scratch.renew();
  EXPECT_TRUE(is_fresh());
}

}  // namespace
}  // namespace qkv
