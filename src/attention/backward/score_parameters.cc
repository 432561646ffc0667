// Scores with parameters are brought to ones without, and the chain rule goes on by matrix products over all rows of
// queries and keys.
//   bilinear:  q^T w k = (w^T q) . k, a dot product of projected queries
//   additive:  v . tanh(w_query q + w_key k), where the kernel differentiates with respect to both summands
#include "attention/backward/score_parameters.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "attention/call/view_checks.h"
#include "core/mathematics.h"
#include "core/stop.h"
#include "core/visit_dtype.h"
#include "ops/matmul/matmul_panel.h"
#include "qkv/matmul.h"

namespace qkv::inline attending {
namespace {

Dims with_last(Dims shape, std::int64_t size) {
  shape[shape.size() - 1] = size;
  return shape;
}

std::int64_t rows_of(const TensorView& view) { return view.element_count() / view.size(-1); }

MutableTensorView as_matrix(Tensor& tensor) { return tensor.view().reshape({rows_of(tensor), tensor.size(-1)}); }

// Rows of products that are computed between two checks of the stop token. Whole blocks of matmul's depth, so that sums
// over rows have the same bits slice by slice.
constexpr std::int64_t kSliceRows = 4096;

// rows [..., k] times matrix [k, n].
Tensor product(Tensor& rows, const TensorView& matrix, const AttentionOptions& options) {
  Tensor out = Tensor::uninitialized(with_last(rows.shape(), matrix.size(1)), rows.dtype());
  const PackedMatrix packed(matrix, options.threads);
  const MutableTensorView from = as_matrix(rows), to = as_matrix(out);
  for (std::int64_t first = 0; first < from.size(0); first += kSliceRows) {
    check_stop();
    const std::int64_t last = std::min(first + kSliceRows, from.size(0));
    matmul(from.slice(0, first, last), packed, to.slice(0, first, last), {.threads = options.threads});
  }
  return out;
}

// The rows whose gradients are all 0 become 0: what a mask hides, and a query without keys, adds nothing, even if it or
// what it is multiplied with holds NaN.
void clear_rows_without(const Tensor& gradients, Tensor& rows) {
  const std::int64_t size = rows.size(-1), gradient_size = gradients.size(-1);
  const auto clear_rows = [&]<class T>(T) {
    for (std::int64_t r = 0; r < rows_of(rows); ++r) {
      const T* gradient = gradients.data<T>() + r * gradient_size;
      if (std::all_of(gradient, gradient + gradient_size, [](T number) { return number == 0; })) {
        std::fill_n(rows.data<T>() + r * size, size, T(0));
      }
    }
  };
  visit_f32_f64(rows.dtype(), clear_rows);
}

// Rows in the type of their gradients, but for those without one.
Tensor rows_that_count(const TensorView& rows, const Tensor& gradients) {
  Tensor copy = convert(rows, gradients.dtype());
  clear_rows_without(gradients, copy);
  return copy;
}

// From the gradients of projected rows to those of the rows: gradients times matrix.
Tensor gradients_through(const TensorView& matrix, Tensor& gradients, const AttentionOptions& options) {
  Tensor rows = product(gradients, matrix, options);
  clear_rows_without(gradients, rows);
  return rows;
}

// to [m, n] = the sum over all rows of a [..., m]^T b [..., n].
void sum_outer_products(Tensor& a, Tensor& b, const MutableTensorView& to, const AttentionOptions& options) {
  Tensor sum = Tensor::zeros(to.shape(), to.dtype());
  const TensorView left = as_matrix(a), right = as_matrix(b);
  for (std::int64_t first = 0; first < left.size(0); first += kSliceRows) {
    check_stop();
    const std::int64_t last = std::min(first + kSliceRows, left.size(0));
    matmul(Tensor::copy(left.slice(0, first, last).transpose(0, 1)), right.slice(0, first, last), sum,
           {.accumulate = first > 0, .threads = options.threads});
  }
  convert(sum, to);
}

// Into a view of the same elements, perhaps under another rank.
void write(const Tensor& rows, const MutableTensorView& to) {
  if (to) convert(rows.view().reshape(to.shape()), to);
}

// What differentiate_scores() is not handed as it is.
void check_views(const AttentionCall& call, const BackwardInputs& inputs, const AttentionGradients& gradients) {
  for (const TensorView& view : {inputs.out, inputs.grad_out}) check_type(call, "out and grad_out", view);
  if (gradients.query) {
    check_gradient(call, "the gradient of query",
                   call.query_rows("the gradient of query", gradients.query, call.query_dim));
  }
  if (gradients.key) {
    check_gradient(call, "the gradient of key", call.key_rows("the gradient of key", gradients.key, call.key_dim));
  }
  if (gradients.value) {
    check_gradient(call, "the gradient of value",
                   call.key_rows("the gradient of value", gradients.value, call.value_dim));
  }
}

std::size_t bytes_of(std::int64_t elements, Dtype dtype) { return static_cast<std::size_t>(elements) * size_of(dtype); }

std::size_t packed_bytes(std::int64_t rows, std::int64_t columns, Dtype dtype) {
  const std::int64_t width = dtype == Dtype::f64 ? panel_columns<double>() : panel_columns<float>();
  return bytes_of(rows * divide_up(columns, width) * width, dtype);
}

// What product() allocates.
std::size_t product_bytes(std::int64_t rows, std::int64_t k, std::int64_t n, Dtype dtype) {
  return bytes_of(rows * n, dtype) + packed_bytes(k, n, dtype);
}

// What sum_outer_products() allocates, and rows_that_count() for rows of `size`.
std::size_t sum_bytes(std::int64_t rows, std::int64_t m, std::int64_t n, std::int64_t size, Dtype dtype) {
  const std::int64_t slice = std::min(rows, kSliceRows);
  return bytes_of(rows * size + m * n + slice * m, dtype) + packed_bytes(slice, n, dtype);
}

// What copies of gradients and of options take in lists.
std::size_t list_bytes(const AttentionGradients& gradients) {
  return (gradients.bias.size() + gradients.tables.size() + gradients.alibi_slopes.size()) * sizeof(MutableTensorView);
}

std::size_t list_bytes(const AttentionOptions& options) {
  const Bias& bias = options.bias;
  return options.mask.parts().size() * sizeof(Mask::Part) +
         (bias.views().size() + bias.alibi_slopes().size()) * sizeof(TensorView) +
         bias.tables().size() * sizeof(RelativeTable);
}

// Additive scores: what goes through the hidden layers of queries and of keys.
struct Additive {
  Additive(const AttentionCall& call, const AttentionOptions& options, const AttentionGradients& given)
      : hidden(options.score.v().size(0)), gradients(given) {
    const auto halves = [&](const auto& w, const auto& of_keys) {
      const bool joined = options.score.kind() == Score::Kind::concat && w;
      return joined
                 ? std::pair(w.slice(1, 0, call.query_dim), w.slice(1, call.query_dim, call.query_dim + call.key_dim))
                 : std::pair(w, of_keys);
    };
    std::tie(w_query, w_key) = halves(options.score.w_query(), options.score.w_key());
    std::tie(grad_w_query, grad_w_key) = halves(given.score.w_query, given.score.w_key);
  }

  // What is asked of the kernel, with views for the gradients of the hidden layers.
  AttentionGradients inner(const MutableTensorView& of_queries, const MutableTensorView& of_keys) const {
    AttentionGradients inner = gradients;
    inner.query = gradients.query || grad_w_query ? of_queries : MutableTensorView();
    inner.key = gradients.key || grad_w_key ? of_keys : MutableTensorView();
    return inner;
  }

  OuterMemory memory(const AttentionCall& call, const BackwardInputs& inputs) const {
    const Dtype wide = call.accumulation;
    const std::int64_t queries = rows_of(inputs.q), keys = rows_of(inputs.k);
    std::size_t after = 0;
    const auto add_side = [&](std::int64_t rows, std::int64_t size, bool of_rows, bool of_parameter) {
      if (of_rows) after = std::max(after, product_bytes(rows, hidden, size, wide));
      if (of_parameter) after = std::max(after, sum_bytes(rows, hidden, size, size, wide));
    };
    add_side(queries, call.query_dim, bool(gradients.query), bool(grad_w_query));
    add_side(keys, call.key_dim, bool(gradients.key), bool(grad_w_key));
    const std::size_t meanwhile = bytes_of((queries + keys) * hidden, wide) + list_bytes(gradients);
    return {meanwhile, meanwhile + after};
  }

  const std::int64_t hidden;
  const AttentionGradients& gradients;
  TensorView w_query, w_key;
  MutableTensorView grad_w_query, grad_w_key;
};

BackwardSchedule schedule_additive(const AttentionCall& call, const BackwardInputs& inputs,
                                   const AttentionOptions& options, const AttentionGradients& gradients) {
  const Additive additive(call, options, gradients);
  const auto layer_of = [&](const TensorView& rows) {
    return MutableTensorView(unallocated(), call.accumulation, with_last(rows.shape(), additive.hidden));
  };
  return schedule_scores(call, inputs, options, additive.inner(layer_of(inputs.q), layer_of(inputs.k)),
                         additive.memory(call, inputs));
}

void differentiate_additive(const AttentionCall& call, const BackwardInputs& inputs, const AttentionOptions& options,
                            const AttentionGradients& gradients) {
  const Additive additive(call, options, gradients);
  Tensor grad_query = Tensor::uninitialized(with_last(inputs.q.shape(), additive.hidden), call.accumulation);
  Tensor grad_key = Tensor::uninitialized(with_last(inputs.k.shape(), additive.hidden), call.accumulation);
  differentiate_scores(call, inputs, options, additive.inner(grad_query, grad_key), additive.memory(call, inputs));
  if (gradients.query) write(gradients_through(additive.w_query, grad_query, options), gradients.query);
  if (gradients.key) write(gradients_through(additive.w_key, grad_key, options), gradients.key);
  if (additive.grad_w_query) {
    Tensor rows = rows_that_count(inputs.q, grad_query);
    sum_outer_products(grad_query, rows, additive.grad_w_query, options);
  }
  if (additive.grad_w_key) {
    Tensor rows = rows_that_count(inputs.k, grad_key);
    sum_outer_products(grad_key, rows, additive.grad_w_key, options);
  }
}

// Bilinear scores are dot products of projected queries, all in the type of the parameters, which these have.
AttentionOptions projected_options(const AttentionOptions& options) {
  AttentionOptions dot = options;
  dot.score = Score::dot();
  return dot;
}

AttentionGradients projected_gradients(const AttentionGradients& gradients, const MutableTensorView& projected,
                                       const MutableTensorView& key, const MutableTensorView& value) {
  AttentionGradients inner = gradients;
  inner.score = {};
  inner.query = gradients.query || gradients.score.w_query ? projected : MutableTensorView();
  inner.key = gradients.key ? key : MutableTensorView();
  inner.value = gradients.value ? value : MutableTensorView();
  return inner;
}

// `dot`: the call of the projected queries, which is made while all of this is there.
OuterMemory projected_memory(const AttentionCall& call, const AttentionCall& dot, const BackwardInputs& inputs,
                             const AttentionOptions& options, const AttentionGradients& gradients) {
  const Dtype wide = call.accumulation;
  const std::int64_t queries = rows_of(inputs.q);
  std::size_t meanwhile =
      call.memory().kept() + bytes_of(2 * queries * call.key_dim, wide) + list_bytes(options) + list_bytes(gradients);
  for (const TensorView& view : {inputs.q, inputs.k, inputs.v, inputs.out, inputs.grad_out, inputs.k, inputs.v}) {
    meanwhile += bytes_of(view.element_count(), wide);
  }
  const std::size_t borrowed = dot.memory().most_with(0) - dot.memory().kept();
  std::size_t otherwise = std::max(borrowed, packed_bytes(call.query_dim, call.key_dim, wide));
  if (gradients.query) {
    otherwise = std::max(otherwise, product_bytes(queries, call.key_dim, call.query_dim, wide));
  }
  if (gradients.score.w_query) {
    otherwise = std::max(otherwise, sum_bytes(queries, call.query_dim, call.key_dim, call.query_dim, wide));
  }
  return {meanwhile, meanwhile + otherwise};
}

BackwardSchedule schedule_bilinear(const AttentionCall& call, const BackwardInputs& inputs,
                                   const AttentionOptions& options, const AttentionGradients& gradients) {
  const auto like = [&](const TensorView& view) {
    return MutableTensorView(unallocated(), call.accumulation, view.shape());
  };
  const MutableTensorView projected(unallocated(), call.accumulation, with_last(inputs.q.shape(), call.key_dim));
  const MutableTensorView k = like(inputs.k), v = like(inputs.v);
  const AttentionOptions dot = projected_options(options);
  const AttentionCall inner(projected, k, v, dot);
  return schedule_scores(inner, {projected, k, v, like(inputs.out), inputs.log_sum_exp, like(inputs.grad_out)}, dot,
                         projected_gradients(gradients, projected, k, v),
                         projected_memory(call, inner, inputs, options, gradients));
}

void differentiate_bilinear(const AttentionCall& call, const BackwardInputs& inputs, const AttentionOptions& options,
                            const AttentionGradients& gradients) {
  const Dtype wide = call.accumulation;
  Tensor q = convert(inputs.q, wide);
  const Tensor k = convert(inputs.k, wide), v = convert(inputs.v, wide);
  const Tensor out = convert(inputs.out, wide), grad_out = convert(inputs.grad_out, wide);
  const Tensor projected = product(q, options.score.w_query(), options);
  Tensor grad_projected = Tensor::uninitialized(projected.shape(), wide);
  Tensor grad_key = Tensor::uninitialized(k.shape(), wide), grad_value = Tensor::uninitialized(v.shape(), wide);
  const AttentionOptions dot = projected_options(options);
  const AttentionCall inner(projected, k, v, dot);
  differentiate_scores(inner, {projected, k, v, out, inputs.log_sum_exp, grad_out}, dot,
                       projected_gradients(gradients, grad_projected, grad_key, grad_value),
                       projected_memory(call, inner, inputs, options, gradients));
  if (gradients.query) {
    const TensorView w = options.score.w_query().transpose(0, 1);
    write(gradients_through(w, grad_projected, options), gradients.query);
  }
  if (gradients.key) write(grad_key, gradients.key);
  if (gradients.value) write(grad_value, gradients.value);
  if (gradients.score.w_query) {
    Tensor rows = rows_that_count(q, grad_projected);
    sum_outer_products(rows, grad_projected, gradients.score.w_query, options);
  }
}

}  // namespace

BackwardSchedule schedule_backward(const AttentionCall& call, const BackwardInputs& inputs,
                                   const AttentionOptions& options, const AttentionGradients& gradients) {
  if (is_dot_product(options.score.kind())) return schedule_scores(call, inputs, options, gradients);
  check_views(call, inputs, gradients);
  if (options.score.kind() == Score::Kind::bilinear) return schedule_bilinear(call, inputs, options, gradients);
  return schedule_additive(call, inputs, options, gradients);
}

void differentiate(const AttentionCall& call, const BackwardInputs& inputs, const AttentionOptions& options,
                   const AttentionGradients& gradients) {
  if (is_dot_product(options.score.kind())) return differentiate_scores(call, inputs, options, gradients);
  schedule_backward(call, inputs, options, gradients);  // refuses what does not fit, before any work
  if (options.score.kind() == Score::Kind::bilinear) return differentiate_bilinear(call, inputs, options, gradients);
  differentiate_additive(call, inputs, options, gradients);
}

}  // namespace qkv::inline attending
