// Scores with parameters are brought to ones without, and the chain rule goes on by matrix products over all rows of
// queries and keys.
//   bilinear:  q^T w k = (w^T q) . k, a dot product of projected queries
//   additive:  v . tanh(w_query q + w_key k), where the kernel differentiates with respect to both summands
#include <algorithm>
#include <utility>

#include "attention/backward/backward_call.h"
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

MutableTensorView as_matrix(const MutableTensorView& view) { return view.reshape({rows_of(view), view.size(-1)}); }

// Rows of products that are computed between two checks of the stop token. Whole blocks of matmul's depth, so that sums
// over rows have the same bits slice by slice.
constexpr std::int64_t kSliceRows = 4096;

// What a product takes for its right operand.
std::size_t packed_bytes(std::int64_t rows, std::int64_t columns, Dtype dtype) {
  const std::int64_t width = dtype == Dtype::f64 ? panel_columns<double>() : panel_columns<float>();
  return static_cast<std::size_t>(rows * divide_up(columns, width) * width) * size_of(dtype);
}

// rows [..., k] times matrix [k, n].
MutableTensorView product(Arena& arena, const MutableTensorView& rows, const TensorView& matrix,
                          const AttentionOptions& options) {
  const MutableTensorView out = arena.take(with_last(rows.shape(), matrix.size(1)), rows.dtype());
  arena.borrow(packed_bytes(matrix.size(0), matrix.size(1), rows.dtype()));
  if (arena.is_dry()) return out;
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
void clear_rows_without(const TensorView& gradients, const MutableTensorView& rows) {
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

// From the gradients of projected rows to those of the rows: gradients times matrix.
void write_through(Arena& arena, const TensorView& matrix, const MutableTensorView& gradients,
                   const AttentionOptions& options, const MutableTensorView& to) {
  const Arena::Frame frame(arena);
  const MutableTensorView rows = product(arena, gradients, matrix, options);
  if (arena.is_dry()) return;
  clear_rows_without(gradients, rows);
  convert(rows.reshape(to.shape()), to);
}

// Rows in the type of their gradients, but for those without one.
MutableTensorView rows_that_count(Arena& arena, const TensorView& rows, const TensorView& gradients) {
  const MutableTensorView copy = arena.copy(rows, gradients.dtype());
  if (!arena.is_dry()) clear_rows_without(gradients, copy);
  return copy;
}

// to [m, n] = the sum over all rows of a [..., m]^T b [..., n].
void sum_outer_products(Arena& arena, const MutableTensorView& a, const MutableTensorView& b,
                        const MutableTensorView& to, const AttentionOptions& options) {
  const MutableTensorView sum = arena.take(to.shape(), to.dtype());
  if (!arena.is_dry()) clear(sum);
  const MutableTensorView left = as_matrix(a), right = as_matrix(b);
  for (std::int64_t first = 0; first < left.size(0); first += kSliceRows) {
    check_stop();
    const Arena::Frame frame(arena);
    const std::int64_t last = std::min(first + kSliceRows, left.size(0));
    const MutableTensorView turned = arena.copy(left.slice(0, first, last).transpose(0, 1), left.dtype());
    arena.borrow(packed_bytes(last - first, right.size(1), right.dtype()));
    if (arena.is_dry()) continue;
    matmul(turned, right.slice(0, first, last), sum, {.accumulate = first > 0, .threads = options.threads});
  }
  if (!arena.is_dry()) convert(sum, to);
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

// Additive scores: what goes through the hidden layers of queries and of keys.
BackwardSchedule differentiate_additive(const AttentionCall& call, const BackwardInputs& inputs,
                                        const AttentionOptions& options, const AttentionGradients& gradients,
                                        Arena& arena) {
  const std::int64_t hidden = options.score.v().size(0);
  const auto halves = [&](const auto& w, const auto& of_keys) {
    const bool joined = options.score.kind() == Score::Kind::concat && w;
    return joined ? std::pair(w.slice(1, 0, call.query_dim), w.slice(1, call.query_dim, call.query_dim + call.key_dim))
                  : std::pair(w, of_keys);
  };
  const auto [w_query, w_key] = halves(options.score.w_query(), options.score.w_key());
  const auto [grad_w_query, grad_w_key] = halves(gradients.score.w_query, gradients.score.w_key);
  const MutableTensorView grad_query = arena.take(with_last(inputs.q.shape(), hidden), call.accumulation);
  const MutableTensorView grad_key = arena.take(with_last(inputs.k.shape(), hidden), call.accumulation);
  AttentionGradients inner = gradients;
  inner.query = gradients.query || grad_w_query ? grad_query : MutableTensorView();
  inner.key = gradients.key || grad_w_key ? grad_key : MutableTensorView();
  const BackwardSchedule schedule = differentiate_scores(call, inputs, options, inner, arena);
  if (gradients.query) write_through(arena, w_query, grad_query, options, gradients.query);
  if (gradients.key) write_through(arena, w_key, grad_key, options, gradients.key);
  const auto add_parameter = [&](const TensorView& rows, const MutableTensorView& of_rows,
                                 const MutableTensorView& to) {
    if (!to) return;
    const Arena::Frame frame(arena);
    sum_outer_products(arena, of_rows, rows_that_count(arena, rows, of_rows), to, options);
  };
  add_parameter(inputs.q, grad_query, grad_w_query);
  add_parameter(inputs.k, grad_key, grad_w_key);
  return schedule;
}

// Bilinear scores are dot products of projected queries, all in the type of the parameters, which these have.
BackwardSchedule differentiate_bilinear(const AttentionCall& call, const BackwardInputs& inputs,
                                        const AttentionOptions& options, const AttentionGradients& gradients,
                                        Arena& arena) {
  const auto wide = [&](const TensorView& view) { return arena.copy(view, call.accumulation); };
  const auto place = [&](const TensorView& like) { return arena.take(like.shape(), call.accumulation); };
  const MutableTensorView q = wide(inputs.q);
  const TensorView k = wide(inputs.k), v = wide(inputs.v), out = wide(inputs.out), grad_out = wide(inputs.grad_out);
  const TensorView projected = product(arena, q, options.score.w_query(), options);
  const MutableTensorView grad_projected = place(projected), grad_key = place(k), grad_value = place(v);
  AttentionOptions dot = options;
  dot.score = Score::dot();
  const AttentionCall projected_call(projected, k, v, dot);
  arena.keep(projected_call.memory());
  AttentionGradients inner = gradients;
  inner.query = gradients.query || gradients.score.w_query ? grad_projected : MutableTensorView();
  inner.key = gradients.key ? grad_key : MutableTensorView();
  inner.value = gradients.value ? grad_value : MutableTensorView();
  const BackwardSchedule schedule =
      differentiate_scores(projected_call, {projected, k, v, out, inputs.log_sum_exp, grad_out}, dot, inner, arena);
  if (gradients.query) {
    write_through(arena, options.score.w_query().transpose(0, 1), grad_projected, options, gradients.query);
  }
  for (const auto& [from, to] : {std::pair(grad_key, gradients.key), {grad_value, gradients.value}}) {
    if (to && !arena.is_dry()) convert(from.reshape(to.shape()), to);
  }
  if (gradients.score.w_query) {
    const Arena::Frame frame(arena);
    const MutableTensorView rows = rows_that_count(arena, q, grad_projected);
    sum_outer_products(arena, rows, grad_projected, gradients.score.w_query, options);
  }
  return schedule;
}

}  // namespace

BackwardSchedule differentiate(const AttentionCall& call, const BackwardInputs& inputs, const AttentionOptions& options,
                               const AttentionGradients& gradients, Arena& arena) {
  if (is_dot_product(options.score.kind())) return differentiate_scores(call, inputs, options, gradients, arena);
  check_views(call, inputs, gradients);
  if (options.score.kind() == Score::Kind::bilinear) {
    return differentiate_bilinear(call, inputs, options, gradients, arena);
  }
  return differentiate_additive(call, inputs, options, gradients, arena);
}

}  // namespace qkv::inline attending
