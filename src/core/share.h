// Says how much of long work is done, to whoever asks for it around the call.
#pragma once

#include <cstdint>
#include <functional>

namespace qkv::inline core {

// While it lives, shares that this thread tells, from 0 to 1, go to `tell`; to the innermost scope where there are
// several.
class ShareTurns;

class ShareScope {
 public:
  explicit ShareScope(std::function<void(double)> tell);
  ~ShareScope();
  ShareScope(const ShareScope&) = delete;

 private:
  friend class ShareTurns;
  std::function<void(double)> tell_;
  ShareScope* around_;
  ShareTurns* turns_around_;
};

// Work of so many turns of about the same length. Turns inside a turn of others tell nothing, unless those are
// `divided`: then they tell parts of that turn.
class ShareTurns {
 public:
  enum Division { whole, divided };

  explicit ShareTurns(std::int64_t turns, Division division = whole);
  ~ShareTurns();
  ShareTurns(const ShareTurns&) = delete;

  // One more is done.
  void next() { tell(++done_); }

 private:
  friend class ShareTasks;
  void tell(double done);

  double turns_, done_ = 0;
  Division division_;
  ShareTurns* around_;
};

// A loop over the tasks of a call that is often a small part of other work: tells parts of a divided turn, nothing
// elsewhere.
class ShareTasks {
 public:
  explicit ShareTasks(std::int64_t tasks);
  // So many are begun; for one thread.
  void begun(std::int64_t tasks) const {
    if (around_ != nullptr) tell(tasks);
  }

 private:
  void tell(std::int64_t begun) const;

  std::int64_t tasks_;
  ShareTurns* around_;
};

}  // namespace qkv::inline core
