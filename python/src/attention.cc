// attention(), merge_attention() and dropout_mask().
#include "qkv/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "arguments.h"
#include "attention/call/output_kinds.h"
#include "bindings.h"
#include "calls.h"
#include "keywords.h"
#include "qkv/attention/attention_plan.h"
#include "qkv/attention/dropout.h"

namespace qkv::python {
namespace {

// The optional outputs that were asked for, and what each takes: True, a number, two numbers or rows.
using Asked = std::vector<std::pair<const OutputDescription*, nb::object>>;

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

Asked read_asked(Keywords& keywords) {
  Asked asked;
  for (const OutputDescription& kind : attention_outputs()) {
    if (!is_asked_for(kind)) continue;
    const bool is_flag = kind.of != OutputOf::top && kind.of != OutputOf::blocks && kind.of != OutputOf::chosen;
    nb::object given;
    keywords.read(kind.name, given);
    if (given.is_valid() && (!is_flag || take_flag(given, kind.name))) asked.emplace_back(&kind, given);
  }
  return asked;
}

// Makes a place for each, the log-sum-exp first.
class Extras {
 public:
  Extras(const Asked& asked, const TensorView& query, const TensorView& key, const CallOptions& call);

  const AttentionExtras& views() const { return views_; }
  // The arrays by name.
  nb::dict give(Kind kind);

 private:
  void place(const OutputDescription& kind, const Dims& shape);

  Array chosen_rows_{};
  std::deque<std::pair<const char*, Tensor>> tensors_{};
  AttentionExtras views_{};
  Dtype accumulation_;
};

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

Tensor empty_output(const TensorView& query, const TensorView& value) {
  Dims shape = query.shape();
  if (!shape.empty() && value.rank() > 0) shape[shape.size() - 1] = value.size(-1);
  return Tensor::uninitialized(shape, query.dtype());
}

struct Attended {
  nb::object out = nb::none();
  bool return_lse = false;
  nb::dict extras{};  // by name, the log-sum-exp among them
};

// A call of attention_stats() or attention().
Attended attended(nb::handle query, nb::handle key, nb::handle value, const nb::kwargs& given, bool of_stats,
                  TakeFloats take_inputs = &take_dense, TakeFloats take = &take_floats) {
  const Array q = take_inputs(query, "query"), k = take_inputs(key, "key"), v = take_inputs(value, "value");
  Attended done;
  Asked asked;
  Keywords keywords(of_stats ? "attention_stats" : "attention", given, take);
  if (of_stats) {
    asked = read_asked(keywords);
  } else {
    keywords.read("return_lse", done.return_lse);
    keywords.read("out", done.out);
  }
  const CallOptions call = take_options(keywords);
  std::optional<Extras> extras;
  Tensor made;
  try {
    if (of_stats || done.return_lse) extras.emplace(asked, q.view, k.view, call);
    if (done.out.is_none()) made = empty_output(q.view, v.view);
  } catch (const std::bad_alloc&) {
    plan(q.view, k.view, v.view, call.options);  // refuses what does not fit together
    throw;
  }
  const WritableArray out = done.out.is_none() ? WritableArray{.view = made.view()} : take_writable(done.out, "out");
  run_released(most_operations(q.view, k.view), [&] {
    attention(q.view, k.view, v.view, out.view, call.options, extras ? extras->views() : AttentionExtras{});
  });
  if (done.out.is_none()) done.out = give_array(std::move(made), q.kind);
  if (extras) done.extras = extras->give(q.kind);
  return done;
}

nb::object attention_of(nb::handle query, nb::handle key, nb::handle value, const nb::kwargs& keywords) {
  Attended done = attended(query, key, value, keywords, false);
  return done.return_lse ? nb::object(nb::make_tuple(done.out, done.extras["log_sum_exp"])) : std::move(done.out);
}

// Tensors of torch may require gradients: take_rows reads them so.
template <TakeFloats kTakeInputs, TakeFloats kTake>
nb::object stats_of(nb::handle query, nb::handle key, nb::handle value, const nb::kwargs& keywords) {
  Attended done = attended(query, key, value, keywords, true, kTakeInputs, kTake);
  return result_of("AttentionStats")(done.out, **done.extras);
}

nb::tuple merge(nb::handle out, nb::handle log_sum_exp, nb::handle other_out, nb::handle other_log_sum_exp) {
  const Array first = take_floats(out, "out"), first_sum = take_floats(log_sum_exp, "log_sum_exp");
  const Array other = take_floats(other_out, "other_out");
  const Array other_sum = take_floats(other_log_sum_exp, "other_log_sum_exp");
  Tensor merged, sum;
  run_released(10 * static_cast<double>(first.view.element_count()), [&] {
    merged = Tensor::copy(first.view);
    sum = Tensor::copy(first_sum.view);
    merge_attention(merged, sum, other.view, other_sum.view);
  });
  return nb::make_tuple(give_array(std::move(merged), first.kind), give_array(std::move(sum), first.kind));
}

nb::object mask_of_dropout(nb::handle shape, nb::handle p, nb::handle seed, nb::handle first) {
  const std::vector<std::int64_t> extents = take_whole_numbers(shape, "shape"), at = take_whole_numbers(first, "first");
  if (at.size() != 4) throw std::invalid_argument("first must be (sequence, head, query, key)");
  const Dropout dropout{.p = take_number(p, "p"), .seed = take_seed(seed, "seed")};
  Tensor kept = Tensor::uninitialized(Dims(std::span(extents)), Dtype::boolean);
  run_released(10 * static_cast<double>(kept.element_count()),
               [&] { dropout_mask(dropout, kept, {at[0], at[1], at[2], at[3]}); });
  return give_array(std::move(kept), Kind::numpy);
}

}  // namespace

void bind_attention(nb::module_& module) {
  Described(module)
      .def("attention", &attention_of, "query"_a, "key"_a, "value"_a, "keywords"_a)
      .def("attention_stats", &stats_of<&take_dense, &take_floats>, "query"_a, "key"_a, "value"_a, "keywords"_a)
      .def("_tensor_stats", &stats_of<&take_rows, &take_rows>, "query"_a, "key"_a, "value"_a, "keywords"_a)
      .def("merge_attention", &merge, "out"_a, "log_sum_exp"_a, "other_out"_a, "other_log_sum_exp"_a)
      .def("dropout_mask", &mask_of_dropout, "shape"_a, "p"_a, "seed"_a, "first"_a = nb::make_tuple(0, 0, 0, 0));
}

}  // namespace qkv::python
