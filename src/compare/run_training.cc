// Settings that all trainings share, and what their logs say.
#include "compare/run_training.h"

#include <algorithm>

#include "compare/catalog.h"
#include "io/json_document.h"
#include "qkv/files.h"

namespace qkv::comparison {

TrainingConfig config_of(const Run& run) {
  return {.seed = run.seed,
          .steps = run.steps,
          .batch_tokens = run.batch_tokens,
          .adam = {.beta2 = 0.99, .epsilon = 1e-8},
          .schedule = {.rate = catalog_task(run.task).rate, .warmup = run.steps / 20, .decay = Decay::cosine},
          .clip = run.clip,
          .log_every = 1,
          .validate_every = run.steps};
}

GradientNorms norms_in(const std::string& log) {
  const std::string text = read_file(log);
  std::vector<double> norms;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const io::JsonDocument line(std::string_view(text).substr(begin, end - begin), log);
    if (const auto norm = line.root().find("gradient_norm")) norms.push_back(norm->number());
  }
  if (norms.empty()) return {};
  std::sort(norms.begin(), norms.end());
  return {.largest = norms.back(), .median = norms[norms.size() / 2]};
}

}  // namespace qkv::comparison
