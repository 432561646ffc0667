// TextClassifier: tokenizes a text, runs the model, and sorts its classes.
#include "qkv/pipelines/text_classifier.h"

#include "core/refuse.h"
#include "io/json/json_document.h"
#include "pipelines/classes.h"
#include "pipelines/pipeline_folder.h"

namespace qkv {

TextClassifier::TextClassifier(Tokenizer tokenizer, TextModel model, std::size_t max_length, bool independent)
    : tokenizer_(std::move(tokenizer)), model_(std::move(model)), max_length_(max_length), independent_(independent) {}

TextClassifier TextClassifier::load(const std::string& folder, WeightStorage storage) {
  TextModel model = TextModel::load(folder, TextTask::sequence_class, storage);
  bool independent = model.config().outputs == 1;
  const io::JsonDocument config = io::JsonDocument::of_config(folder + "/config.json");
  if (const auto problem = config.root().find("problem_type")) {
    const bool multi = problem->string() == "multi_label_classification";
    if (!multi && problem->string() != "single_label_classification") {
      problem->refuse("must be \"single_label_classification\" or \"multi_label_classification\"");
    }
    independent = independent || multi;
  }
  const TextEncoderConfig& encoder = model.encoder().config();
  const std::size_t length = tokens_read(read_max_length(folder), encoder.positions);
  Tokenizer tokenizer = Tokenizer::load(folder + "/tokenizer.json", encoder.vocab);
  return TextClassifier(std::move(tokenizer), std::move(model), length, independent);
}

std::vector<ClassProbability> TextClassifier::classify(const std::string& text, std::int64_t top,
                                                       const TextEncoderOptions& options) const {
  refuse_unless(top >= 1, "text_classifier", "top is {}, at least 1 is needed", top);
  const Encoding encoding = tokenizer_.encode(text, {.max_length = max_length_});
  const Tensor logits = model_.logits(
      {encoding.ids, encoding.type_ids, offsets_of(std::vector{static_cast<std::int64_t>(encoding.ids.size())})},
      options);
  return most_probable({logits.data<float>(), static_cast<std::size_t>(logits.size(1))}, model_.config().labels, top,
                       independent_);
}

}  // namespace qkv
