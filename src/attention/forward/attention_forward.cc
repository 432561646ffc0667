// attention(): its arguments are checked, the call is scheduled and carried out.
#include <vector>

#include "attention/call/apart.h"
#include "attention/call/attention_problem.h"
#include "attention/forward/forward_call.h"
#include "core/float_environment.h"
#include "core/stop.h"
#include "qkv/attention.h"
#include "simd/dispatch.h"

namespace qkv {
namespace {

std::vector<NamedView> outputs_of(const MutableTensorView& out, const AttentionExtras& extras) {
  std::vector<NamedView> outputs{{"out", out}};
  for (const OutputDescription& kind : attention_outputs()) {
    if (extras.*kind.view) outputs.push_back({kind.name, extras.*kind.view});
  }
  return outputs;
}

}  // namespace

void attention(const TensorView& q, const TensorView& k, const TensorView& v, const MutableTensorView& out,
               const AttentionOptions& options, const AttentionExtras& extras) {
  ensure_target();
  const FloatEnvironment environment;
  const StopScope stop(options.stop);
  AttentionProblem problem(q, k, v, options, out, extras);
  std::vector<NamedView> inputs = inputs_of(q, k, v, options);
  if (extras.rows) inputs.push_back({"rows", extras.rows});
  require_apart(outputs_of(out, extras), inputs);
  const AttentionSchedule schedule(problem, options, extras);
  run_forward(problem, schedule, extras);
}

Tensor attention(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionOptions& options,
                 const AttentionExtras& extras) {
  Dims shape = q.shape();
  if (!shape.empty() && v.rank() > 0) shape[shape.size() - 1] = v.size(-1);
  Tensor out = Tensor::uninitialized(shape, q.dtype());
  attention(q, k, v, out.view(), options, extras);
  return out;
}

}  // namespace qkv
