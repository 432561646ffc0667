// Checks masks, biases and sinks, and writes them into the task of a head.
#include "attention/call/attention_rules.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attention/call/documents.h"
#include "attention/call/table_biases.h"
#include "attention/call/view_checks.h"
#include "attention/options/compiled_mask.h"

namespace qkv::inline attending {
namespace {

constexpr std::int64_t kUnbounded = std::int64_t{1} << 40;

std::int64_t bound_of(std::int64_t side) { return side < 0 ? kUnbounded : std::min(side, kUnbounded); }

void check_relative_rows(const AttentionOptions& options) {
  for (const RelativeTable& table : options.bias.tables()) {
    if (table.kind() == RelativeTable::Kind::shaw && !is_dot_product(options.score.kind())) {
      fail("Shaw's table needs the score dot or scaled dot");
    }
  }
}

}  // namespace

AttentionRules::AttentionRules(const AttentionInputs& inputs, const AttentionOptions& options, MemoryCount& memory)
    : mask_batch_(inputs.mask_batch()),
      align_(options.mask.align().value_or(Align::top_left)),
      bounds_(bounds_of(options.mask)),
      tables_(inputs, options.bias.tables(), memory),
      documents_(Documents::of(inputs, options.mask, memory)) {
  const auto booleans =
      static_cast<std::size_t>(std::ranges::count(options.mask.parts(), MaskKind::boolean, &Mask::Part::kind));
  given_booleans_.reserve(booleans), booleans_.reserve(booleans), boolean_blocks_.reserve(booleans);
  for (const Mask::Part& part : options.mask.parts()) {
    if (part.kind == MaskKind::prefix) check_prefix(inputs, part.arrays[0], memory);
    if (part.kind == MaskKind::boolean) add_boolean(inputs, part);
    if (part.kind == MaskKind::function) mask_functions_.push_back(*part.function);
  }
  if (booleans_.size() > kMaxPlanes)
    fail("at most {} boolean masks can be combined, got {}", kMaxPlanes, booleans_.size());
  check_bias(inputs, options.bias);
  check_relative_rows(options);
  if (options.sinks) check_sinks(inputs, options.sinks);
  if (inputs.q_len > 1) compile_booleans(inputs, memory);
}

void AttentionRules::add_boolean(const AttentionInputs& inputs, const Mask::Part& part) {
  const TensorView& view = part.arrays[0];
  if (view.dtype() != Dtype::boolean && view.dtype() != Dtype::u8) {
    fail("a boolean mask must be bool or u8 (true = may attend), got {}", name_of(view.dtype()));
  }
  given_booleans_.push_back(view);
  booleans_.push_back(
      broadcast("boolean mask", view, concatenate(mask_batch_, {inputs.heads, inputs.q_len, inputs.k_len})));
  boolean_blocks_.emplace_back();
  set_blocks(boolean_blocks_.size() - 1, part.blocks, inputs.heads);
}

void AttentionRules::set_blocks(std::size_t n, std::shared_ptr<const BooleanBlocks> made, std::int64_t heads) {
  Blocks& blocks = boolean_blocks_[n];
  blocks.made = std::move(made);
  if (blocks.made == nullptr || !blocks.made->are_known()) return;
  const auto spread = [&](const TensorView& words) {
    return broadcast("boolean mask", words, concatenate(mask_batch_, {heads, words.size(-2), words.size(-1)}));
  };
  blocks.some = spread(blocks.made->some());
  blocks.every = spread(blocks.made->every());
}

void AttentionRules::compile_booleans(const AttentionInputs& inputs, MemoryCount& memory) {
  for (std::size_t n = 0; n < boolean_blocks_.size(); ++n) {
    if (boolean_blocks_[n].made != nullptr) continue;
    memory.keep(BooleanBlocks::bytes(given_booleans_[n]));
    set_blocks(n, std::make_shared<BooleanBlocks>(given_booleans_[n], inputs.threads), inputs.heads);
  }
}

void AttentionRules::check_prefix(const AttentionInputs& inputs, const TensorView& view, MemoryCount& memory) {
  const std::vector<std::int64_t> counts = sequence_counts("prefix", view, inputs.batch);
  const auto negative = std::find_if(counts.begin(), counts.end(), [](std::int64_t count) { return count < 0; });
  if (negative != counts.end()) fail("prefix[{}] is {}; it must be 0 or more", negative - counts.begin(), *negative);
  memory.keep(prefixes_.empty() ? 2 * counts.size() * sizeof(std::int64_t) : 0);  // and one more at a time
  keep_least(prefixes_, counts);
}

void AttentionRules::check_bias(const AttentionInputs& inputs, const Bias& bias) {
  biases_.reserve(bias.views().size());
  alibi_.reserve(bias.alibi_slopes().size());
  for (const TensorView& view : bias.views()) {
    if (view.dtype() != inputs.accumulation) {
      fail("bias is {}; for {} inputs it must be {}", name_of(view.dtype()), name_of(inputs.storage),
           name_of(inputs.accumulation));
    }
    biases_.push_back(broadcast("bias", view, concatenate(mask_batch_, {inputs.heads, inputs.q_len, inputs.k_len})));
  }
  if (biases_.size() > kMaxPlanes) fail("at most {} bias views can be combined, got {}", kMaxPlanes, biases_.size());
  for (const TensorView& view : bias.alibi_slopes()) {
    if (view.dtype() != Dtype::f32 && view.dtype() != Dtype::f64) {
      fail("ALiBi slopes must be f32 or f64, got {}", name_of(view.dtype()));
    }
    alibi_.push_back(broadcast("ALiBi slopes", view, concatenate(mask_batch_, {inputs.heads})));
  }
}

void AttentionRules::check_sinks(const AttentionInputs& inputs, const TensorView& sinks) {
  if (sinks.dtype() != Dtype::f32 && sinks.dtype() != Dtype::f64) {
    fail("sinks must be f32 or f64, got {}", name_of(sinks.dtype()));
  }
  require_shape("sinks", sinks, {inputs.heads});
  const Tensor values = convert(sinks, Dtype::f64);
  sinks_.assign(values.data<double>(), values.data<double>() + inputs.heads);
  for (std::int64_t h = 0; h < inputs.heads; ++h) {
    const double sink = sinks_[static_cast<std::size_t>(h)];
    if (std::isnan(sink) || sink > std::numeric_limits<float>::max()) {
      fail("sinks[{}] is {}; it must be a number or -infinity (none)", h, sink);
    }
  }
}

bool AttentionRules::are_alike_for_heads() const {
  const auto is_shared = [&](const TensorView& view) { return view.stride(mask_batch_.size()) == 0; };
  return std::all_of(booleans_.begin(), booleans_.end(), is_shared) && mask_functions_.empty() && biases_.empty() &&
         alibi_.empty() && tables_.empty() && sinks_.empty();
}

void AttentionRules::set(CommonTask& common) const {
  common.left = bound_of(bounds_.left);
  common.right = bound_of(bounds_.right);
  common.step = bounds_.step;
  common.chunks = bounds_.chunks;
  common.mask_functions = mask_functions_.data();
  common.mask_function_count = mask_functions_.size();
  common.boolean_count = static_cast<int>(booleans_.size());
  common.bias_count = static_cast<int>(biases_.size());
  common.table_count = tables_.count();
}

void AttentionRules::set(AttentionTask& task, std::int64_t b, std::int64_t h) const {
  task.offset = align_ == Align::top_left ? 0 : task.length - task.q_len;
  if (!prefixes_.empty()) task.prefix = prefixes_[static_cast<std::size_t>(b)];
  if (documents_ != nullptr) documents_->set(task, b);
  if (!sinks_.empty()) task.sink = sinks_[static_cast<std::size_t>(h)];
  const auto planes = [&](const std::vector<TensorView>& views, Plane* to) {
    for (const TensorView& view : views) {
      *to++ = {head_address(view, mask_batch_, b, h), view.stride(-2), view.stride(-1)};
    }
  };
  planes(booleans_, task.booleans);
  for (std::size_t n = 0; n < boolean_blocks_.size(); ++n) {
    const auto& [made, some, every] = boolean_blocks_[n];
    if (!some) continue;
    const auto words = [&](const TensorView& of) {
      return reinterpret_cast<const std::uint64_t*>(head_address(of, mask_batch_, b, h));
    };
    task.boolean_blocks[n] = {words(some), words(every), some.size(-2) == 1 ? 0 : some.stride(-2)};
  }
  planes(biases_, task.biases);
  tables_.set(task, h);
  for (const TensorView& slopes : alibi_) {
    const std::byte* slope = head_address(slopes, mask_batch_, b, h);
    task.alibi_slope +=
        slopes.dtype() == Dtype::f32 ? *reinterpret_cast<const float*>(slope) : *reinterpret_cast<const double*>(slope);
  }
}

}  // namespace qkv::inline attending
