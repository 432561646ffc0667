// Shapes of optional outputs, as attention.h has them.
#include "extras.h"

#include <fmt/format.h>

#include <algorithm>

#include "arguments.h"
#include "attention/call/output_kinds.h"

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

constexpr std::int64_t kUsualTopKeys = 8;

}  // namespace

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

Extras::Extras(nb::handle want, const TensorView& query, const TensorView& key, const CallOptions& call)
    : accumulation_(query.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32) {
  if (PyUnicode_Check(want.ptr()) || !nb::hasattr(want, "__iter__")) {
    throw TypeError(
        fmt::format("want must be a tuple of names such as (\"log_sum_exp\",), got {}", name_of_type(want)));
  }
  const AttentionOptions& options = call.options;
  const bool packed = static_cast<bool>(options.offsets_query);
  k_len_ = longest_keys(key, options);
  for (int i = 0; i + 1 < query.rank(); ++i) rows_.push_back(query.size(i));
  keys_ = rows_;
  if (!rows_.empty()) {  // attention() refuses the others
    const int length = rows_.size() - 1;
    for (int i = 0; i < length; ++i) heads_.push_back(rows_[i]);
    if (packed) {
      heads_ = {options.offsets_query.element_count() - 1, rows_[length]};
      if (options.offsets_key && key.rank() > 0) keys_[0] = key.size(0);
    } else {
      keys_[length] = k_len_;
    }
  }
  for (nb::handle item : nb::iter(want)) {
    if (nb::isinstance<nb::tuple>(item) && nb::len(item) == 2) {
      add(take_text(nb::object(item[0]), "a name in want"), nb::object(item[1]));
    } else {
      add(take_text(item, "a name in want"), nb::none());
    }
  }
  // Of the strongest keys attention() gives both.
  if (views_.top_keys && !views_.top_weights) views_.top_weights = place(views_.top_keys.shape(), accumulation_);
  if (views_.top_weights && !views_.top_keys) views_.top_keys = place(views_.top_weights.shape(), Dtype::i64);
}

MutableTensorView Extras::place(const Dims& shape, Dtype dtype) {
  return tensors_.emplace_back(Tensor::uninitialized(shape, dtype)).view();
}

void Extras::add(const std::string& name, nb::handle argument) {
  const auto with = [](Dims shape, std::initializer_list<std::int64_t> more) {
    for (const std::int64_t extent : more) shape.push_back(extent);
    return shape;
  };
  const auto list = attention_outputs();
  const auto kind = std::ranges::find(list, name, &OutputDescription::name);
  if (kind == list.end()) {
    std::string known;
    for (const OutputDescription& one : list) known += (known.empty() ? "" : ", ") + std::string(one.name);
    throw std::invalid_argument(fmt::format("want names \"{}\"; known are {}", name, known));
  }
  const auto shape = [&]() -> Dims {
    switch (kind->of) {
      case OutputOf::top: {
        const std::int64_t count = argument.is_none() ? kUsualTopKeys : take_whole(argument, name);
        if (count < 1) throw std::invalid_argument(name + " needs a number from 1");
        return with(rows_, {count});
      }
      case OutputOf::blocks: {
        const std::vector<std::int64_t> parts = take_whole_numbers(argument, name);
        if (parts.size() == 2 && parts[0] > 0 && parts[1] > 0) return with(heads_, {parts[0], parts[1]});
        throw std::invalid_argument(name + " needs two numbers from 1: (\"" + name + "\", (8, 8))");
      }
      case OutputOf::chosen:
        chosen_rows_ = take_integers(argument, "rows of row_weights");
        views_.rows = chosen_rows_.view;
        return {chosen_rows_.view.rank() == 2 ? chosen_rows_.view.size(0) : 0, k_len_};
      default:
        if (!argument.is_none()) throw std::invalid_argument("want: " + name + " takes no argument");
    }
    return kind->of == OutputOf::rows ? rows_ : kind->of == OutputOf::keys ? keys_ : with(rows_, {k_len_});
  };
  if (views_.*kind->view) throw std::invalid_argument("want names " + name + " twice");
  views_.*kind->view = place(shape(), kind->is_index ? Dtype::i64 : accumulation_);
  order_.push_back(tensors_.size() - 1);
}

std::vector<nb::object> Extras::give(Kind kind) {
  std::vector<nb::object> given;
  for (const std::size_t at : order_) given.push_back(give_array(std::move(tensors_[at]), kind));
  return given;
}

}  // namespace qkv::python
