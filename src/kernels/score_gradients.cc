// attention_backward(): scores with parameters are brought to ones without, and the chain rule goes on by matrix
// products over all rows of queries and keys.
//   bilinear:  q^T w k = (w^T q) . k, a dot product of projected queries
//   additive:  v . tanh(w_query q + w_key k), where the kernel differentiates with respect to both summands
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/float_environment.h"
#include "kernels/apart.h"
#include "kernels/attention_gradients.h"
#include "kernels/attention_problem.h"
#include "kernels/attention_rules.h"
#include "kernels/dispatch.h"
#include "kernels/view_checks.h"
#include "qkv/matmul.h"

namespace qkv {
namespace {

Dims with_last(Dims shape, std::int64_t size) {
  shape[shape.size() - 1] = size;
  return shape;
}

std::int64_t rows_of(const Tensor& tensor) { return tensor.element_count() / tensor.size(-1); }

MutableTensorView as_matrix(Tensor& tensor) { return tensor.view().reshape({rows_of(tensor), tensor.size(-1)}); }

// rows [..., k] times matrix [k, n].
Tensor product(Tensor& rows, const TensorView& matrix, int threads) {
  Tensor out = Tensor::uninitialized(with_last(rows.shape(), matrix.size(1)), rows.dtype());
  matmul(as_matrix(rows), matrix, as_matrix(out), {.threads = threads});
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
  rows.dtype() == Dtype::f64 ? clear_rows(double{}) : clear_rows(float{});
}

// Rows in the type of their gradients, but for those without one.
Tensor rows_that_count(const TensorView& rows, const Tensor& gradients) {
  Tensor copy = convert(rows, gradients.dtype());
  clear_rows_without(gradients, copy);
  return copy;
}

// From the gradients of projected rows to those of the rows: gradients times matrix.
Tensor gradients_through(const TensorView& matrix, Tensor& gradients, int threads) {
  Tensor rows = product(gradients, matrix, threads);
  clear_rows_without(gradients, rows);
  return rows;
}

// to [m, n] = the sum over all rows of a [..., m]^T b [..., n].
void sum_outer_products(Tensor& a, Tensor& b, const MutableTensorView& to, int threads) {
  Tensor sum = Tensor::zeros(to.shape(), to.dtype());
  if (rows_of(a) > 0) matmul(Tensor::copy(as_matrix(a).transpose(0, 1)), as_matrix(b), sum, {.threads = threads});
  convert(sum, to);
}

// Into a place of the same elements, perhaps under another rank.
void write(const Tensor& rows, const MutableTensorView& to) {
  if (to) convert(rows.view().reshape(to.shape()), to);
}

// The parameters' gradients, checked: shapes and types of the parameters.
void check_parameters(const Score& score, const ScoreGradients& gradients) {
  const auto check = [](const char* name, const TensorView& parameter, const TensorView& gradient) {
    if (!gradient) return;
    if (!parameter) fail("{} is no parameter of this score", name);
    require_shape(name, gradient, parameter.shape());
    if (gradient.dtype() != parameter.dtype()) {
      fail("{} is {}; it must be {}", name, name_of(gradient.dtype()), name_of(parameter.dtype()));
    }
    require_distinct(name, gradient);
  };
  check("the gradient of score w_query", score.w_query(), gradients.w_query);
  check("the gradient of score w_key", score.w_key(), gradients.w_key);
  check("the gradient of score v", score.v(), gradients.v);
}

// What differentiate_scores() is not handed as it is.
void check_views(const AttentionProblem& problem, const BackwardInputs& inputs, const AttentionGradients& gradients) {
  for (const TensorView& view : {inputs.out, inputs.grad_out}) check_type(problem, "out and grad_out", view);
  if (gradients.query) {
    check_gradient(problem, "the gradient of q",
                   problem.query_rows("the gradient of q", gradients.query, problem.query_dim));
  }
  if (gradients.key) {
    check_gradient(problem, "the gradient of k", problem.key_rows("the gradient of k", gradients.key, problem.key_dim));
  }
  if (gradients.value) {
    check_gradient(problem, "the gradient of v",
                   problem.key_rows("the gradient of v", gradients.value, problem.value_dim));
  }
}

void differentiate_additive(const BackwardInputs& inputs, const AttentionOptions& options,
                            const AttentionGradients& gradients) {
  const AttentionProblem problem(inputs.q, inputs.k, inputs.v, options);
  check_views(problem, inputs, gradients);
  const bool joined = options.score.kind() == Score::Kind::concat;
  const auto halves = [&](const auto& w_query, const auto& w_key) {
    return joined && w_query
               ? std::pair(w_query.slice(1, 0, problem.query_dim), w_query.slice(1, problem.query_dim, w_query.size(1)))
               : std::pair(w_query, w_key);
  };
  const auto [w_query, w_key] = halves(options.score.w_query(), options.score.w_key());
  const auto [grad_w_query, grad_w_key] = halves(gradients.score.w_query, gradients.score.w_key);

  const std::int64_t hidden = options.score.v().size(0);
  Tensor grad_query = Tensor::uninitialized(with_last(inputs.q.shape(), hidden), problem.accumulation);
  Tensor grad_key = Tensor::uninitialized(with_last(inputs.k.shape(), hidden), problem.accumulation);
  AttentionGradients inner = gradients;
  inner.query = inner.key = {};
  if (gradients.query || grad_w_query) inner.query = grad_query;
  if (gradients.key || grad_w_key) inner.key = grad_key;
  differentiate_scores(inputs, options, inner);
  if (gradients.query) write(gradients_through(w_query, grad_query, options.threads), gradients.query);
  if (gradients.key) write(gradients_through(w_key, grad_key, options.threads), gradients.key);
  if (grad_w_query) {
    Tensor rows = rows_that_count(inputs.q, grad_query);
    sum_outer_products(grad_query, rows, grad_w_query, options.threads);
  }
  if (grad_w_key) {
    Tensor rows = rows_that_count(inputs.k, grad_key);
    sum_outer_products(grad_key, rows, grad_w_key, options.threads);
  }
}

void differentiate_bilinear(const BackwardInputs& inputs, const AttentionOptions& options,
                            const AttentionGradients& gradients) {
  const AttentionProblem problem(inputs.q, inputs.k, inputs.v, options);
  check_views(problem, inputs, gradients);
  // All in the type of the parameters, which projected queries have.
  const Dtype wide = problem.accumulation;
  Tensor q = convert(inputs.q, wide);
  const Tensor k = convert(inputs.k, wide), v = convert(inputs.v, wide);
  const Tensor out = convert(inputs.out, wide), grad_out = convert(inputs.grad_out, wide);
  const Tensor projected = product(q, options.score.w_query(), options.threads);
  AttentionOptions dot = options;
  dot.score = Score::dot();
  Tensor grad_projected = Tensor::uninitialized(projected.shape(), wide);
  Tensor grad_key = Tensor::uninitialized(k.shape(), wide), grad_value = Tensor::uninitialized(v.shape(), wide);
  AttentionGradients inner = gradients;
  inner.query = inner.key = inner.value = {};
  inner.score = {};
  if (gradients.query || gradients.score.w_query) inner.query = grad_projected;
  if (gradients.key) inner.key = grad_key;
  if (gradients.value) inner.value = grad_value;
  differentiate_scores({projected, k, v, out, inputs.log_sum_exp, grad_out}, dot, inner);
  if (gradients.query) {
    const TensorView w = options.score.w_query().transpose(0, 1);
    write(gradients_through(w, grad_projected, options.threads), gradients.query);
  }
  if (gradients.key) write(grad_key, gradients.key);
  if (gradients.value) write(grad_value, gradients.value);
  if (gradients.score.w_query) {
    Tensor rows = rows_that_count(q, grad_projected);
    sum_outer_products(rows, grad_projected, gradients.score.w_query, options.threads);
  }
}

std::vector<NamedView> outputs_of(const AttentionGradients& gradients) {
  std::vector<NamedView> outputs{{"the gradient of q", gradients.query},
                                 {"the gradient of k", gradients.key},
                                 {"the gradient of v", gradients.value},
                                 {"the gradient of score w_query", gradients.score.w_query},
                                 {"the gradient of score w_key", gradients.score.w_key},
                                 {"the gradient of score v", gradients.score.v},
                                 {"the gradient of the sinks", gradients.sinks}};
  for (const MutableTensorView& view : gradients.bias) outputs.push_back({"the gradient of a bias", view});
  for (const MutableTensorView& view : gradients.tables) outputs.push_back({"the gradient of a table", view});
  for (const MutableTensorView& view : gradients.alibi_slopes)
    outputs.push_back({"the gradient of ALiBi slopes", view});
  return outputs;
}

std::vector<NamedView> all_inputs_of(const BackwardInputs& inputs, const AttentionOptions& options) {
  std::vector<NamedView> all = inputs_of(inputs.q, inputs.k, inputs.v, options);
  all.push_back({"out", inputs.out});
  all.push_back({"log_sum_exp", inputs.log_sum_exp});
  all.push_back({"grad_out", inputs.grad_out});
  return all;
}

}  // namespace

void attention_backward(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
                        const TensorView& log_sum_exp, const TensorView& grad_out, const AttentionOptions& options,
                        const AttentionGradients& gradients) {
  if (compiles_mask(q, options)) {
    return attention_backward(q, k, v, out, log_sum_exp, grad_out, with_compiled_mask(options), gradients);
  }
  ensure_target();
  const FloatEnvironment environment;
  if (options.threads < 0) throw std::invalid_argument("attention_backward: threads must be 0 (default) or more");
  if (options.block_table) throw std::invalid_argument("attention_backward: paged keys have no gradients");
  if (options.logit_function) {
    throw std::invalid_argument("attention_backward: the derivative of a logit function is not known");
  }
  if (options.precision != Precision::exact) {
    throw std::invalid_argument("attention_backward: precision must be exact");
  }
  check_parameters(options.score, gradients.score);
  const BackwardInputs inputs{q, k, v, out, log_sum_exp, grad_out};
  require_apart(outputs_of(gradients), all_inputs_of(inputs, options));
  switch (options.score.kind()) {
    case Score::Kind::dot:
    case Score::Kind::scaled_dot:
      return differentiate_scores(inputs, options, gradients);
    case Score::Kind::additive:
    case Score::Kind::concat:
      return differentiate_additive(inputs, options, gradients);
    case Score::Kind::bilinear:
      return differentiate_bilinear(inputs, options, gradients);
  }
}

}  // namespace qkv
