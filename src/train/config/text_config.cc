// Lists the keys of an encoder's fine-tuning, and reads its config.
#include "train/config/text_config.h"

#include "train/config/training_keys.h"

namespace qkv::training {
namespace {

std::vector<ConfigKey<TextConfig>> make_text_keys() {
  using C = TextConfig;
  using K = KeysOf<C>;
  std::vector<ConfigKey<C>> keys{
      K::choice(
          {"", "kind", "-",
           "What is trained: the class of a text, of a pair of texts, of each word, or the word itself."},
          [](C& c) -> auto& { return c.kind; },
          {{"classes", TrainedKind::classes},
           {"pairs", TrainedKind::pairs},
           {"tokens", TrainedKind::tokens},
           {"masked", TrainedKind::masked}},
          kRequired),
      K::choice({"", "problem_type", "-",
                 "What a text or a pair is labelled with: one label; several, or none, with commas between them; or a "
                 "number."},
                [](C& c) -> auto& { return c.problem; },
                {{"single_label_classification", TextProblem::single_label},
                 {"multi_label_classification", TextProblem::multi_label},
                 {"regression", TextProblem::regression}}),
      dropout_key<C>(
          "Share of elements set to 0 during training: in embeddings, attention weights, activations, outputs of "
          "sublayers and before the output."),
      dtype_key<C>(),
      K::integer(
          {"training", "batch", "texts", "Texts, or pairs, of a batch."},
          [](C& c) -> auto& { return c.training.batch_tokens; }, 1),
      longest_text_key<C>(
          "Longest text or pair, special tokens included; longer ones lose their ends. 0: all positions of the "
          "model."),
  };
  add_training_keys(keys);
  return keys;
}

}  // namespace

const std::vector<ConfigKey<TextConfig>>& text_keys() {
  static const std::vector<ConfigKey<TextConfig>> keys = make_text_keys();
  return keys;
}

std::string text_keys_text() {
  return "Keys of an encoder's config (one whose \"kind\" is \"classes\", \"pairs\", \"tokens\" or \"masked\"):\n" +
         keys_text({text_keys().begin(), text_keys().end()});
}

std::string text_keys_markdown() { return keys_markdown({text_keys().begin(), text_keys().end()}); }

TextConfig read_text_config(const std::string& path) {
  const io::JsonDocument document = io::JsonDocument::of_config(path);
  const io::JsonValue root = document.root();
  TextConfig config;
  read_keys(root, text_keys(), config);
  if (config.problem != TextProblem::single_label) {
    const bool is_whole = config.kind == TrainedKind::classes || config.kind == TrainedKind::pairs;
    if (!is_whole) root["problem_type"].refuse("is of the kinds \"classes\" and \"pairs\" alone");
    if (config.label_smoothing != 0) root["training"]["label_smoothing"].refuse("must be 0 with this problem_type");
  }
  expect_end(root["training"], config.training);
  return config;
}

}  // namespace qkv::training
