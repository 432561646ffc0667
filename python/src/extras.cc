// Shapes of optional outputs, as attention.h has them.
#include "extras.h"

#include <fmt/format.h>

#include <algorithm>

#include "arguments.h"

namespace qkv::python {
namespace {

std::int64_t integer_at(const TensorView& view, std::int64_t i) {
  return view.dtype() == Dtype::i32 ? view.at<std::int32_t>({i}) : view.at<std::int64_t>({i});
}

std::int64_t longest(const TensorView& view, bool are_offsets) {
  std::int64_t most = 0;
  if (view.rank() != 1) return most;  // attention() refuses it
  for (std::int64_t i = are_offsets ? 1 : 0; i < view.size(0); ++i) {
    most = std::max(most, integer_at(view, i) - (are_offsets ? integer_at(view, i - 1) : 0));
  }
  return most;
}

std::int64_t longest_keys(const TensorView& key, const AttentionOptions& options) {
  if (options.offsets_key) return longest(options.offsets_key, true);
  if (options.block_table) {
    for (const Mask::Part& part : options.mask.parts()) {
      if (part.kind == MaskKind::lengths) return longest(part.arrays[0], false);
    }
    return options.block_table.rank() == 2 && key.rank() > 1 ? options.block_table.size(1) * key.size(1) : 0;
  }
  return key.rank() < 2 ? 0 : key.size(-2);
}

Dims with(Dims shape, std::initializer_list<std::int64_t> more) {
  for (const std::int64_t extent : more) shape.push_back(extent);
  return shape;
}

const OutputDescription& described(std::string_view name) {
  return *std::ranges::find(attention_outputs(), name, &OutputDescription::name);
}

// top_keys and top_weights are asked for, and given, together.
bool is_asked_for(const OutputDescription& kind) {
  return kind.view != &AttentionExtras::log_sum_exp && kind.view != &AttentionExtras::top_weights;
}

}  // namespace

bool ask(Asked& asked, std::string_view name, nb::handle given) {
  const auto kind = std::ranges::find(attention_outputs(), name, &OutputDescription::name);
  if (kind == attention_outputs().end() || !is_asked_for(*kind)) return false;
  const bool is_flag = kind->of != OutputOf::top && kind->of != OutputOf::blocks && kind->of != OutputOf::chosen;
  if (is_flag ? take_flag(given, name) : !given.is_none()) asked.emplace_back(&*kind, nb::borrow(given));
  return true;
}

Extras::Extras(const Asked& asked, const TensorView& query, const TensorView& key, const CallOptions& call)
    : accumulation_(query.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32) {
  const AttentionOptions& options = call.options;
  const std::int64_t k_len = longest_keys(key, options);
  Dims rows, heads;  // [..., heads, q_len], packed [query tokens, heads]; [..., heads], packed [batch, heads]
  for (int i = 0; i + 1 < query.rank(); ++i) rows.push_back(query.size(i));
  Dims keys = rows;     // [..., heads, k_len], packed [key tokens, heads]
  if (!rows.empty()) {  // attention() refuses the others
    const int length = rows.size() - 1;
    for (int i = 0; i < length; ++i) heads.push_back(rows[i]);
    if (options.offsets_query) {
      heads = {options.offsets_query.element_count() - 1, rows[length]};
      if (options.offsets_key && key.rank() > 0) keys[0] = key.size(0);
    } else {
      keys[length] = k_len;
    }
  }
  place(described("log_sum_exp"), rows);
  for (const auto& [kind, given] : asked) {
    switch (kind->of) {
      case OutputOf::rows:
        place(*kind, rows);
        break;
      case OutputOf::keys:
        place(*kind, keys);
        break;
      case OutputOf::pairs:
        place(*kind, with(rows, {k_len}));
        break;
      case OutputOf::top: {
        const std::int64_t count = take_whole(given, kind->name);
        if (count < 1) throw std::invalid_argument(fmt::format("{} needs a number from 1", kind->name));
        place(*kind, with(rows, {count}));
        place(described("top_weights"), with(rows, {count}));
        break;
      }
      case OutputOf::blocks: {
        const std::vector<std::int64_t> parts = take_whole_numbers(given, kind->name);
        if (parts.size() != 2 || parts[0] < 1 || parts[1] < 1) {
          throw std::invalid_argument(fmt::format("{} needs two numbers from 1, such as (8, 8)", kind->name));
        }
        place(*kind, with(heads, {parts[0], parts[1]}));
        break;
      }
      case OutputOf::chosen:
        chosen_rows_ = take_integers(given, kind->name);
        views_.rows = chosen_rows_.view;
        place(*kind, {chosen_rows_.view.rank() == 2 ? chosen_rows_.view.size(0) : 0, k_len});
        break;
    }
  }
}

void Extras::place(const OutputDescription& kind, const Dims& shape) {
  const Dtype dtype = kind.is_index ? Dtype::i64 : accumulation_;
  tensors_.emplace_back(kind.name, Tensor::uninitialized(shape, dtype));
  views_.*kind.view = tensors_.back().second.view();
}

nb::dict Extras::give(Kind kind) {
  nb::dict given;
  for (auto& [name, tensor] : tensors_) given[name] = give_array(std::move(tensor), kind);
  return given;
}

}  // namespace qkv::python
