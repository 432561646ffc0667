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

constexpr std::int64_t kUsualTopKeys = 8;

// Outputs that take nothing but their name.
enum class Shape { rows, keys, pairs };
struct Plain {
  std::string_view name;
  MutableTensorView AttentionExtras::* view;
  Shape shape;
};
constexpr Plain kPlain[] = {
    {"log_sum_exp", &AttentionExtras::log_sum_exp, Shape::rows},
    {"row_maximum", &AttentionExtras::row_maximum, Shape::rows},
    {"entropy", &AttentionExtras::entropy, Shape::rows},
    {"received", &AttentionExtras::received, Shape::keys},
    {"weights", &AttentionExtras::weights, Shape::pairs},
    {"logits", &AttentionExtras::logits, Shape::pairs},
};

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
  const auto give_place = [&](MutableTensorView& view, const Dims& shape, Dtype dtype) {
    if (view) throw std::invalid_argument("want names " + name + " twice");
    view = place(shape, dtype);
    order_.push_back(tensors_.size() - 1);
  };
  for (const Plain& plain : kPlain) {
    if (plain.name != name) continue;
    if (!argument.is_none()) throw std::invalid_argument("want: " + name + " takes no argument");
    const Dims shape = plain.shape == Shape::rows ? rows_ : plain.shape == Shape::keys ? keys_ : with(rows_, {k_len_});
    return give_place(views_.*plain.view, shape, accumulation_);
  }
  if (name == "top_keys" || name == "top_weights") {
    const std::int64_t count = argument.is_none() ? kUsualTopKeys : take_whole(argument, name);
    if (count < 1) throw std::invalid_argument(name + " needs a number from 1");
    const bool keys = name == "top_keys";
    give_place(keys ? views_.top_keys : views_.top_weights, with(rows_, {count}), keys ? Dtype::i64 : accumulation_);
  } else if (name == "block_weights") {
    const std::vector<std::int64_t> parts = take_whole_numbers(argument, name);
    if (parts.size() != 2 || parts[0] < 1 || parts[1] < 1) {
      throw std::invalid_argument("block_weights needs two numbers from 1: (\"block_weights\", (8, 8))");
    }
    give_place(views_.block_weights, with(heads_, {parts[0], parts[1]}), accumulation_);
  } else if (name == "row_weights") {
    chosen_rows_ = take_integers(argument, "rows of row_weights");
    views_.rows = chosen_rows_.view;
    const std::int64_t count = chosen_rows_.view.rank() == 2 ? chosen_rows_.view.size(0) : 0;
    give_place(views_.row_weights, {count, k_len_}, accumulation_);
  } else {
    throw std::invalid_argument("want names \"" + name +
                                "\"; known are log_sum_exp, weights, logits, row_maximum, entropy, top_keys, "
                                "top_weights, received, block_weights and row_weights");
  }
}

std::vector<nb::object> Extras::give(Kind kind) {
  std::vector<nb::object> given;
  for (const std::size_t at : order_) given.push_back(give_array(std::move(tensors_[at]), kind));
  return given;
}

}  // namespace qkv::python
