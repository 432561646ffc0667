// Mask: checks and combines its parts, and compiles boolean views and documents.
#include "qkv/attention/mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "core/compiled_mask.h"
#include "core/refuse.h"

namespace qkv {
namespace {

// No query and key of a call are so far apart.
constexpr std::int64_t kFarthest = std::int64_t{1} << 32;

// The smallest step that both divide, or one that leaves only the query's own position.
std::int64_t common_step(std::int64_t a, std::int64_t b) {
  const std::int64_t part = a / std::gcd(a, b);
  return part > kFarthest / b ? kFarthest : part * b;
}

void check_sides(const char* name, std::int64_t left, std::int64_t right) {
  if (left < -1 || right < -1) {
    refuse(name, "({}, {}) must be two numbers from -1 (open) upwards", left, right);
  }
}

// The tighter of two bounds, where -1 is none.
std::int64_t tighter(std::int64_t a, std::int64_t b) { return a < 0 ? b : b < 0 ? a : std::min(a, b); }

}  // namespace

Mask Mask::causal(std::optional<Align> align) {
  Mask mask;
  mask.align_ = align;
  mask.right_ = 0;
  return mask;
}

Mask Mask::window(std::int64_t left, std::int64_t right, std::optional<Align> align) {
  check_sides("window", left, right);
  Mask mask;
  mask.align_ = align;
  mask.left_ = left;
  mask.right_ = right;
  return mask;
}

Mask Mask::prefix(TensorView counts, std::optional<Align> align) {
  Mask mask;
  mask.align_ = align;
  mask.prefixes_.push_back(counts);
  return mask;
}

Mask Mask::dilated(std::int64_t left, std::int64_t right, std::int64_t step, std::optional<Align> align) {
  check_sides("dilated", left, right);
  if (step < 1) refuse("dilated", "the step is {}; it must be 1 or more", step);
  const auto keys = [&](std::int64_t side) {
    return side < 1 ? side : side > kFarthest / step ? kFarthest : side * step;
  };
  Mask mask;
  mask.align_ = align;
  mask.left_ = keys(left);
  mask.right_ = keys(right);
  mask.step_ = std::min(step, kFarthest);
  return mask;
}

Mask Mask::lengths(TensorView counts) {
  Mask mask;
  mask.lengths_.push_back(counts);
  return mask;
}

Mask Mask::boolean(TensorView visible) {
  Mask mask;
  mask.booleans_.push_back(visible);
  mask.blocks_.push_back(nullptr);
  return mask;
}

Mask Mask::compiled(int threads) const {
  Mask mask = *this;
  for (std::size_t i = 0; i < booleans_.size(); ++i) {
    if (blocks_[i] == nullptr) mask.blocks_[i] = std::make_shared<BooleanBlocks>(booleans_[i], threads);
  }
  if (!documents_.empty() && kept_documents_ == nullptr) mask.kept_documents_ = std::make_shared<KeptDocuments>();
  return mask;
}

bool Mask::is_compiled() const {
  return std::find(blocks_.begin(), blocks_.end(), nullptr) == blocks_.end() &&
         (documents_.empty() || kept_documents_ != nullptr);
}

Mask Mask::documents(TensorView query_ids, TensorView key_ids) {
  Mask mask;
  mask.documents_.push_back({query_ids, key_ids});
  return mask;
}

Mask Mask::function(MaskFunction visible) {
  Mask mask;
  mask.functions_.push_back(std::move(visible));
  return mask;
}

Mask operator&(Mask a, const Mask& b) {
  if (a.align_ && b.align_ && *a.align_ != *b.align_) {
    refuse("mask", "one part is aligned top-left, another bottom-right; a call has one alignment");
  }
  if (b.align_) a.align_ = b.align_;
  a.left_ = tighter(a.left_, b.left_);
  a.right_ = tighter(a.right_, b.right_);
  a.step_ = common_step(a.step_, b.step_);
  a.prefixes_.insert(a.prefixes_.end(), b.prefixes_.begin(), b.prefixes_.end());
  a.lengths_.insert(a.lengths_.end(), b.lengths_.begin(), b.lengths_.end());
  a.booleans_.insert(a.booleans_.end(), b.booleans_.begin(), b.booleans_.end());
  a.blocks_.insert(a.blocks_.end(), b.blocks_.begin(), b.blocks_.end());
  // What was made of one mask's documents does not tell which ids both masks share.
  if (!b.documents_.empty()) a.kept_documents_ = a.documents_.empty() ? b.kept_documents_ : nullptr;
  a.documents_.insert(a.documents_.end(), b.documents_.begin(), b.documents_.end());
  a.functions_.insert(a.functions_.end(), b.functions_.begin(), b.functions_.end());
  return a;
}

}  // namespace qkv
