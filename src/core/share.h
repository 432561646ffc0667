// Says how much of long work is done, to whoever asks for it around the call.
#pragma once

#include <cstdint>
#include <functional>

namespace qkv::inline core {

// While it lives, shares that this thread tells, from 0 to 1, go to `tell`; to the innermost scope where there are
// several.
class ShareScope {
 public:
  explicit ShareScope(std::function<void(double)> tell);
  ~ShareScope();
  ShareScope(const ShareScope&) = delete;

 private:
  friend class ShareTurns;
  std::function<void(double)> tell_;
  ShareScope* around_;
};

// Work of so many turns of about the same length.
class ShareTurns {
 public:
  explicit ShareTurns(std::int64_t turns) : turns_(turns) {}
  // One more is done.
  void next();

 private:
  std::int64_t turns_, done_ = 0;
};

}  // namespace qkv::inline core
