// The scopes of a thread.
#include "core/share.h"

#include <utility>

namespace qkv {
namespace {

thread_local constinit ShareScope* innermost_share = nullptr;

}  // namespace

inline namespace core {

ShareScope::ShareScope(std::function<void(double)> tell) : tell_(std::move(tell)), around_(innermost_share) {
  innermost_share = this;
}

ShareScope::~ShareScope() { innermost_share = around_; }

void ShareTurns::next() {
  ++done_;
  if (innermost_share != nullptr) innermost_share->tell_(static_cast<double>(done_) / static_cast<double>(turns_));
}

}  // namespace core
}  // namespace qkv
