// attention_jvp(): its arguments are checked, the call is scheduled and carried out.
#include "qkv/attention/attention_jvp.h"

#include <vector>

#include "attention/call/apart.h"
#include "attention/tangent/jvp_call.h"
#include "core/float_environment.h"
#include "core/stop.h"
#include "simd/dispatch.h"

namespace qkv {
void attention_jvp(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
                   const TensorView& log_sum_exp, const AttentionTangents& tangents, const AttentionOptions& options,
                   const AttentionOutputTangents& outputs) {
  ensure_target();
  const FloatEnvironment environment;
  const StopScope stop(options.stop);
  const AttentionCall call(q, k, v, options);
  require_tangents("attention_jvp", call, options);
  {  // a list that is not kept
    std::vector<NamedView> inputs = inputs_of(q, k, v, options);
    add_tangents(inputs, out, log_sum_exp, tangents);
    require_apart({{"the tangent of out", outputs.out}, {"the tangent of log_sum_exp", outputs.log_sum_exp}}, inputs);
  }
  Arena arena(call.memory());
  const JvpSchedule schedule(call, arena);
  move_outputs(call, out, log_sum_exp, tangents, schedule, {.out = outputs.out, .log_sum_exp = outputs.log_sum_exp});
}

}  // namespace qkv
