// attention_backward(): its arguments are checked, then differentiated as the score wants it.
#include "qkv/attention/attention_backward.h"

#include <vector>

#include "attention/backward/backward_call.h"
#include "attention/call/apart.h"
#include "attention/call/attention_call.h"
#include "core/float_environment.h"
#include "core/stop.h"
#include "simd/dispatch.h"

namespace qkv {
namespace {

std::vector<NamedView> outputs_of(const AttentionGradients& gradients) {
  std::vector<NamedView> outputs{{"the gradient of query", gradients.query},
                                 {"the gradient of key", gradients.key},
                                 {"the gradient of value", gradients.value},
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
  ensure_target();
  const FloatEnvironment environment;
  const StopScope stop(options.stop);
  check_backward(options, gradients);
  const AttentionCall call(q, k, v, options);
  const BackwardInputs inputs{q, k, v, out, log_sum_exp, grad_out};
  require_apart(outputs_of(gradients), all_inputs_of(inputs, options));
  if (!is_dot_product(options.score.kind())) {  // refuses what does not fit, before any work
    Arena dry = Arena::dry(call.memory());
    differentiate(call, inputs, options, gradients, dry);
  }
  Arena arena(call.memory());
  differentiate(call, inputs, options, gradients, arena);
}

}  // namespace qkv
