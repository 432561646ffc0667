// Decides whether two strided views may share elements.
#include "attention/call/apart.h"

#include <algorithm>

#include "attention/call/view_checks.h"
#include "attention/options/mask_kinds.h"

namespace qkv::inline attending {
namespace {

// The bytes of a view: steps with their counts, the largest first, from its lowest address on.
class Bytes {
 public:
  explicit Bytes(const NamedView& view) : first_(view.first) {
    const auto element = static_cast<std::int64_t>(size_of(view.dtype));
    add(1, element);
    for (int dim = 0; dim < view.shape->size(); ++dim)
      add(std::abs((*view.strides)[dim] * element), (*view.shape)[dim]);
    std::sort(steps_, steps_ + count_, [](const Step& a, const Step& b) { return a.bytes > b.bytes; });
    for (int i = count_ - 1; i >= 0; --i) {
      steps_[i].span = (i + 1 < count_ ? steps_[i + 1].span : 1) + steps_[i].bytes * (steps_[i].count - 1);
    }
  }

  struct Step {
    std::int64_t bytes, count;
    std::int64_t span;  // from the first to the last byte of this step and all smaller ones
  };
  std::intptr_t first() const { return first_; }
  int count() const { return count_; }
  // A single byte follows the last step.
  Step step(int i) const { return i < count_ ? steps_[i] : Step{0, 1, 1}; }

 private:
  void add(std::int64_t bytes, std::int64_t count) {
    if (bytes != 0 && count > 1) steps_[count_++] = {bytes, count, 0};
  }

  std::intptr_t first_;
  int count_ = 0;
  Step steps_[kMaxRank + 1];
};

// Whether two views are slices of one array that interleave: step by step of the same size, the largest first, one lies
// beside the other, or in a gap of it. False also for views that share nothing in a less regular way.
bool interleave(const Bytes& a, const Bytes& b) {
  std::int64_t distance = b.first() - a.first();  // b begins so many bytes behind a
  for (int i = 0;; ++i) {
    if (distance >= a.step(i).span || -distance >= b.step(i).span) return true;
    const std::int64_t step = a.step(i).bytes, own = a.step(i + 1).span, other = b.step(i + 1).span;
    if (step == 0 || b.step(i).bytes != step || own > step || other > step) return false;
    // Only two of the other's periods come near one of its own.
    const std::int64_t behind = (distance % step + step) % step, before = behind - step;
    const bool meets_behind = behind < own, meets_before = before + other > 0;
    if (meets_behind && meets_before) return false;
    distance = meets_before ? before : behind;
  }
}

}  // namespace

void NamedView::find_range(bool is_given) {
  if (!is_given) return;
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  std::int64_t lowest = 0, highest = element - 1;
  for (int dim = 0; dim < shape->size(); ++dim) {
    const std::int64_t extent = (*shape)[dim];
    if (extent == 0) return;
    const std::int64_t span = (*strides)[dim] * element * (extent - 1);
    (span < 0 ? lowest : highest) += span;
  }
  first = reinterpret_cast<std::intptr_t>(bytes) + lowest;
  last = reinterpret_cast<std::intptr_t>(bytes) + highest;
}

std::vector<NamedView> inputs_of(const TensorView& q, const TensorView& k, const TensorView& v,
                                 const AttentionOptions& options) {
  std::vector<NamedView> inputs;
  inputs.reserve(16);
  const auto add = [&](std::string_view name, const TensorView& view) {
    if (view) inputs.push_back({name, view});
  };
  add("query", q);
  add("key", k);
  add("value", v);
  for (const Mask::Part& part : options.mask.parts()) {
    if (part.kind == MaskKind::function) continue;
    for (const TensorView& view : part.arrays) add(description_of(part.kind).name, view);
  }
  for (const TensorView& view : options.bias.views()) add("bias", view);
  for (const TensorView& view : options.bias.alibi_slopes()) add("ALiBi slopes", view);
  for (const RelativeTable& table : options.bias.tables()) add("a table", table.values());
  add("the score", options.score.w_query());
  add("the score", options.score.w_key());
  add("the score", options.score.v());
  add("sinks", options.sinks);
  add("offsets_query", options.offsets_query);
  add("offsets_key", options.offsets_key);
  add("block_table", options.block_table);
  return inputs;
}

void add_tangents(std::vector<NamedView>& inputs, const TensorView& out, const TensorView& log_sum_exp,
                  const AttentionTangents& tangents) {
  inputs.push_back({"out", out});
  inputs.push_back({"log_sum_exp", log_sum_exp});
  inputs.push_back({"the tangent of query", tangents.query});
  inputs.push_back({"the tangent of key", tangents.key});
  inputs.push_back({"the tangent of value", tangents.value});
}

void require_apart(const std::vector<NamedView>& outputs, const std::vector<NamedView>& inputs) {
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    const auto require = [&](const NamedView& other) {
      if (output->last < other.first || other.last < output->first) return;
      if (output->last < output->first || other.last < other.first) return;  // nothing
      const Bytes own(*output), bytes(other);
      if (!interleave(own, bytes)) {
        fail("{} shares elements with {}, or may; an output needs memory of its own", output->name, other.name);
      }
    };
    for (const NamedView& input : inputs) require(input);
    for (auto other = outputs.begin(); other != output; ++other) require(*other);
  }
}

}  // namespace qkv::inline attending
