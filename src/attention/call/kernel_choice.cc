// Chooses the kernel of single queries, and the precision.
#include "attention/call/kernel_choice.h"

#include <algorithm>

#include "qkv/attention/precision.h"
#include "qkv/target.h"

namespace qkv {

bool is_single_query(const AttentionTask& task) { return task.q_len == 1 && is_dot_product(task.score); }

bool has_reduced_precision() {
#ifdef __x86_64__
  const std::string target = selected_target();
  return (target == "avx512" || target == "amx") && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

std::string why_not_reduced(Dtype storage, Score::Kind score, std::int64_t key_dim, std::int64_t value_dim) {
  if (!has_reduced_precision()) return "target " + selected_target() + " on this CPU does not multiply in bf16";
  if (storage == Dtype::f64) return "f64 is not reduced";
  if (score == Score::Kind::additive || score == Score::Kind::concat)
    return "this score does not multiply queries by keys";
  if (std::max(key_dim, value_dim) > kMostReducedDim) return "head and value sizes above 512 are not reduced";
  return {};
}

}  // namespace qkv
