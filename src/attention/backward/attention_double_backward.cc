// attention_double_backward(): the tangents of out and log-sum-exp, and then a backward pass that goes once deeper.
#include "qkv/attention/attention_double_backward.h"

#include "attention/backward/backward_call.h"
#include "attention/call/apart.h"
#include "attention/call/view_checks.h"
#include "core/float_environment.h"
#include "qkv/stop.h"
#include "simd/dispatch.h"

namespace qkv {
namespace {

void check_places(const AttentionCall& call, const AttentionSecondGradients& gradients) {
  const auto check = [&](const char* name, const TensorView& view, bool of_queries, std::int64_t size) {
    if (!view) return;
    require_output(call, name, of_queries ? call.query_rows(name, view, size) : call.key_rows(name, view, size));
  };
  check("the gradient of query", gradients.query, true, call.query_dim);
  check("the gradient of key", gradients.key, false, call.key_dim);
  check("the gradient of value", gradients.value, false, call.value_dim);
  check("the gradient of grad_out", gradients.grad_out, true, call.value_dim);
}

}  // namespace

void attention_double_backward(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
                               const TensorView& log_sum_exp, const TensorView& grad_out,
                               const AttentionTangents& tangents, const AttentionOptions& options,
                               const AttentionSecondGradients& gradients) {
  ensure_target();
  const FloatEnvironment environment;
  const StopScope stop(options.stop);
  const AttentionCall call(q, k, v, options);
  require_tangents("attention_double_backward", call, options);
  const TensorView rows = call.query_rows("grad_out", grad_out, call.value_dim);
  require_type_of_q(call, "grad_out", rows);
  check_places(call, gradients);
  {  // a list that is not kept
    std::vector<NamedView> given = inputs_of(q, k, v, options);
    add_tangents(given, out, log_sum_exp, tangents);
    given.push_back({"grad_out", grad_out});
    require_apart({{"the gradient of query", gradients.query},
                   {"the gradient of key", gradients.key},
                   {"the gradient of value", gradients.value},
                   {"the gradient of grad_out", gradients.grad_out}},
                  given);
  }
  const BackwardInputs inputs{q, k, v, out, log_sum_exp, grad_out, tangents};
  Arena dry = Arena::dry(call.memory()), arena(call.memory());
  differentiate_twice(call, inputs, options, gradients, dry);  // refuses what does not fit, before any work
  differentiate_twice(call, inputs, options, gradients, arena);
}

}  // namespace qkv
