// Lists the keys of an encoder's fine-tuning, and reads its config.
#include "train/config/text_config.h"

#include "train/config/training_keys.h"

namespace qkv::training {
namespace {

std::vector<ConfigKey<TextConfig>> make_text_keys() {
  using C = TextConfig;
  using K = KeysOf<C>;
  std::vector<ConfigKey<C>> keys{
      K::choice({"", "kind", "-",
                 "What to predict: the class of a text, of a pair of texts or of each word, or masked words."},
                &C::kind,
                {{"classes", TrainedKind::classes},
                 {"pairs", TrainedKind::pairs},
                 {"tokens", TrainedKind::tokens},
                 {"masked", TrainedKind::masked}},
                kRequired),
      K::choice({"", "problem_type", "-",
                 "Labels of a text or a pair: one label; any number of them, separated by commas; or a number."},
                &C::problem,
                {{"single_label_classification", TextProblem::single_label},
                 {"multi_label_classification", TextProblem::multi_label},
                 {"regression", TextProblem::regression}}),
      dropout_key<C>(", outputs of sublayers and before the output"),
      dtype_key<C>(),
      K::integer({"training", "batch", "texts", "Texts, or pairs, of a batch."},
                 path(&C::training, &TrainingConfig::batch_tokens), 1),
      longest_text_key<C>(
          "Longest text or pair, special tokens included; longer ones are truncated. 0: all positions of the model."),
  };
  add_training_keys(keys);
  return keys;
}

}  // namespace

const KeyTable<TextConfig>& text_keys() {
  static const KeyTable<TextConfig> table{
      "Keys of an encoder's config (one whose \"kind\" is \"classes\", \"pairs\", \"tokens\" or \"masked\"):\n",
      make_text_keys()};
  return table;
}

TextConfig read_text_config(const std::string& path) {
  return read_config(path, text_keys(), [](const io::JsonValue& root, TextConfig& config) {
    if (config.problem == TextProblem::single_label) return;
    const bool is_whole = config.kind == TrainedKind::classes || config.kind == TrainedKind::pairs;
    if (!is_whole) root["problem_type"].refuse("applies only to the kinds \"classes\" and \"pairs\"");
    if (config.label_smoothing != 0) root["training"]["label_smoothing"].refuse("must be 0 with this problem_type");
  });
}

}  // namespace qkv::training
