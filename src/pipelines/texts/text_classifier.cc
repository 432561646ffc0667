// TextClassifier: tokenizes a text, runs the model, and sorts its classes.
#include "qkv/pipelines/text_classifier.h"

#include "core/refuse.h"
#include "io/json/json_document.h"
#include "pipelines/classes.h"
#include "pipelines/text_batches.h"
#include "pipelines/texts/text_folder.h"
#include "qkv/stop.h"

namespace qkv {

TextClassifier::TextClassifier(TextFolder opened, ClassScores scores)
    : tokenizer_(std::move(opened.tokenizer)),
      model_(std::move(opened.model)),
      max_length_(opened.max_length),
      scores_(scores) {}

TextClassifier TextClassifier::load(const std::string& folder, WeightStorage storage) {
  TextFolder opened = open_text_folder(folder, TextTask::sequence_class, storage);
  ClassScores scores = opened.model.config().outputs == 1 ? ClassScores::sigmoid : ClassScores::softmax;
  const io::JsonDocument config = io::JsonDocument::of_config(folder + "/config.json");
  if (const auto problem = config.root().find("problem_type")) {
    const std::string name = problem->string();
    if (name == "multi_label_classification") {
      scores = ClassScores::sigmoid;
    } else if (name == "regression") {
      scores = ClassScores::logits;
    } else if (name != "single_label_classification") {
      problem->refuse("must be \"single_label_classification\", \"multi_label_classification\" or \"regression\"");
    }
  }
  return TextClassifier(std::move(opened), scores);
}

std::vector<ClassProbability> TextClassifier::classify(const std::string& text, std::int64_t top,
                                                       const TextEncoderOptions& options) const {
  return classify(std::span(&text, 1), top, options)[0];
}

std::vector<std::vector<ClassProbability>> TextClassifier::classify(std::span<const std::string> texts,
                                                                    std::int64_t top,
                                                                    const TextEncoderOptions& options) const {
  const StopScope stop(options.stop);
  refuse_unless(top >= 1, "text_classifier", "top is {}, at least 1 is needed", top);
  const std::vector<Encoding> encodings =
      encode_texts("text_classifier", tokenizer_, texts, {max_length_, options.threads});
  std::vector<std::vector<ClassProbability>> found(texts.size());
  for_each_text_batch(encodings, options.threads, [&](const TokenBatch& batch, std::size_t first) {
    const Tensor logits = model_.logits(batch, {.threads = options.threads});
    const auto labels = static_cast<std::size_t>(logits.size(1));
    for (std::int64_t b = 0; b < batch.batch(); ++b) {
      const float* const row = logits.data<float>() + b * logits.size(1);
      found[first + static_cast<std::size_t>(b)] = most_probable({row, labels}, model_.config().labels, top, scores_);
    }
  });
  return found;
}

}  // namespace qkv
