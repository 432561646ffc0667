// Heads are views with strides into the projected rows, and into the merged ones: nothing is copied to split or merge.
// Extra keys are attended to separately and joined by log-sum-exp, so that neither keys nor masks are rebuilt for them.
#include "layers/heads/head_attention.h"

#include <algorithm>

#include "attention/call/view_checks.h"
#include "attention/forward/attention_in_place.h"
#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/stop.h"
#include "layers/heads/head_operands.h"

namespace qkv {
namespace {

// An output without the batch dimension, for inputs without one, gets it.
MutableTensorView with_batch(const char* name, const MutableTensorView& view, const Dims& shape) {
  if (!view) return view;
  const MutableTensorView whole = view.rank() + 1 == shape.size() ? with_rank(view, shape.size()) : view;
  if (whole.shape() != shape) {
    refuse("multi_head_attention", "{} is {}; it must be {}", name, to_string(view.shape()), to_string(shape));
  }
  if (whole.stride(-1) != 1) refuse("multi_head_attention", "{} must have a last stride of 1", name);
  return whole;
}

// Calls f(index) for every index into `shape`.
template <class Function>
void for_each_index(const Dims& shape, Function f) {
  Dims index = shape;
  for (int i = 0; i < index.size(); ++i) index[i] = 0;
  for (std::int64_t left = element_count(shape); left > 0; --left) {
    check_stop();
    f(index);
    for (int i = index.size() - 1; i >= 0 && ++index[i] == shape[i]; --i) index[i] = 0;
  }
}

// First element of the row at `index`, which lacks the last dimension.
template <class T, class View>
auto row_at(const View& view, const Dims& index) {
  std::int64_t offset = 0;
  for (int i = 0; i < index.size(); ++i) offset += index[i] * view.stride(i);
  return view.template data<T>() + offset;
}

Dims without_last(const Dims& shape) {
  return Dims(std::span(shape.begin(), static_cast<std::size_t>(shape.size() - 1)));
}

// Weights over some keys become weights over all of them: times e^(log-sum-exp of the part - log-sum-exp of all).
template <class T>
void rescale(const MutableTensorView& weights, const Tensor& part, const Tensor& all) {
  for_each_index(part.shape(), [&](const Dims& index) {
    const T factor = exp(*row_at<T>(part.view(), index) - *row_at<T>(all.view(), index));
    T* row = row_at<T>(weights, index);
    for (std::int64_t j = 0; j < weights.size(-1); ++j) row[j] *= factor;
  });
}

// mean [..., k_len] = the mean of weights over their dimension 1, the heads.
template <class T>
void average(const TensorView& weights, const MutableTensorView& mean) {
  const std::int64_t heads = weights.size(1);
  for_each_index(without_last(mean.shape()), [&](const Dims& index) {
    T* to = row_at<T>(mean, index);
    std::fill_n(to, mean.size(-1), T(0));
    for (std::int64_t h = 0; h < heads; ++h) {
      const T* from = row_at<T>(weights.select(1, h), index);
      for (std::int64_t j = 0; j < mean.size(-1); ++j) to[j] += from[j];
    }
    for (std::int64_t j = 0; j < mean.size(-1); ++j) to[j] /= static_cast<T>(heads);
  });
}

// Outputs for what is observed; with or without the columns of the extra keys.
struct Planes {
  MutableTensorView weights{}, logits{};

  Planes columns(std::int64_t begin, std::int64_t end) const {
    const auto cut = [&](const MutableTensorView& view) {
      return view ? view.slice(view.rank() - 1, begin, end) : view;
    };
    return {cut(weights), cut(logits)};
  }
};

// Attends to the given keys and to the extra ones, and joins the two.
template <class T>
void attend_with_extra_keys(const HeadAttention& in, const HeadOperands& given, const MutableTensorView& out,
                            const MutableTensorView& log_sum_exp, const Planes& planes) {
  const Dims rows = without_last(out.shape());
  Tensor all = Tensor::uninitialized(rows, dtype_of<T>), extra = Tensor::uninitialized(rows, dtype_of<T>);
  Tensor extra_out = Tensor::uninitialized(out.shape(), dtype_of<T>);
  const MutableTensorView& plane = planes.weights ? planes.weights : planes.logits;
  const std::int64_t columns = plane ? plane.size(-1) : in.extra_key.size(0);
  const std::int64_t k_len = columns - in.extra_key.size(0);
  const Planes given_planes = planes.columns(0, k_len), extra_planes = planes.columns(k_len, columns);
  attention(given.query, given.key, given.value, out, given.options,
            {.log_sum_exp = all, .weights = given_planes.weights, .logits = given_planes.logits});
  const ExtraOperands others(in, given);
  attention(given.query, others.key, others.value, extra_out, others.options,
            {.log_sum_exp = extra, .weights = extra_planes.weights, .logits = extra_planes.logits});
  const Tensor part = all;
  merge_attention(out, all, extra_out, extra);
  if (log_sum_exp) convert(all, log_sum_exp);
  if (planes.weights) {
    rescale<T>(given_planes.weights, part, all);
    rescale<T>(extra_planes.weights, extra, all);
  }
}

}  // namespace

void attend_heads(const HeadAttention& in, const MutableTensorView& merged, const MutableTensorView& log_sum_exp,
                  const MultiHeadAttentionOptions& options, Observer* observer) {
  const Sequences &query = in.query.form, &key = in.key.form;
  const HeadOperands operands(in, options);
  const MutableTensorView out = split_heads(merged, query, in.config.heads);
  if (in.query.projected.bytes() == merged.bytes()) {
    return attention_in_place(out, operands.key, operands.value, operands.options);
  }

  const std::int64_t k_len = (key.ragged() ? longest_sequence(key) : operands.key.size(2)) + in.extra_key.size(0);
  Dims shape = out.shape();
  shape[shape.size() - 1] = k_len;
  Planes planes{.weights = with_batch("weights", options.weights, shape)};
  const MutableTensorView mean = with_batch("mean_weights", options.mean_weights,
                                            query.ragged() ? Dims{shape[0], k_len} : Dims{shape[0], shape[2], k_len});
  Tensor own_weights, own_logits;
  const auto wanted = [&](const char* name) { return observer != nullptr && observer->wants(name); };
  if (!planes.weights && (mean || wanted("weights"))) {
    own_weights = Tensor::uninitialized(shape, merged.dtype());
    planes.weights = own_weights;
  }
  if (wanted("logits")) {
    own_logits = Tensor::uninitialized(shape, merged.dtype());
    planes.logits = own_logits;
  }

  const bool f64 = merged.dtype() == Dtype::f64;
  if (in.extra_key.size(0) == 0) {
    attention(operands.query, operands.key, operands.value, out, operands.options,
              {.log_sum_exp = log_sum_exp, .weights = planes.weights, .logits = planes.logits});
  } else {
    f64 ? attend_with_extra_keys<double>(in, operands, out, log_sum_exp, planes)
        : attend_with_extra_keys<float>(in, operands, out, log_sum_exp, planes);
  }
  if (mean) f64 ? average<double>(planes.weights, mean) : average<float>(planes.weights, mean);

  if (observer == nullptr) return;
  observer->receive("query", operands.query);
  observer->receive("key", operands.key);
  observer->receive("value", operands.value);
  if (in.extra_key.size(0) > 0) {
    observer->receive("extra_key", in.extra_key);
    observer->receive("extra_value", in.extra_value);
  }
  if (planes.logits) observer->receive("logits", planes.logits);
  if (planes.weights) observer->receive("weights", planes.weights);
  observer->receive("heads", out);
}

}  // namespace qkv
