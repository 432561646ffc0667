// The scopes of a thread.
#include "core/share.h"

#include <utility>

namespace qkv {
namespace {

thread_local constinit ShareScope* innermost_share = nullptr;
thread_local constinit ShareTurns* innermost_turns = nullptr;

}  // namespace

inline namespace core {

ShareScope::ShareScope(std::function<void(double)> tell)
    : tell_(std::move(tell)), around_(innermost_share), turns_around_(std::exchange(innermost_turns, nullptr)) {
  innermost_share = this;
}

ShareScope::~ShareScope() {
  innermost_share = around_;
  innermost_turns = turns_around_;
}

ShareTurns::ShareTurns(std::int64_t turns, Division division)
    : turns_(static_cast<double>(turns)), division_(division), around_(std::exchange(innermost_turns, this)) {}

ShareTurns::~ShareTurns() { innermost_turns = around_; }

void ShareTurns::tell(double done) {
  if (around_ != nullptr) {
    if (around_->division_ == divided) around_->tell(around_->done_ + done / turns_);
  } else if (innermost_share != nullptr) {
    innermost_share->tell_(done / turns_);
  }
}

ShareTasks::ShareTasks(std::int64_t tasks)
    : tasks_(tasks),
      around_(innermost_turns != nullptr && innermost_turns->division_ == ShareTurns::divided ? innermost_turns
                                                                                              : nullptr) {}

void ShareTasks::tell(std::int64_t begun) const {
  around_->tell(around_->done_ + static_cast<double>(begun) / static_cast<double>(tasks_));
}

}  // namespace core
}  // namespace qkv
