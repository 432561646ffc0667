// Lists the keys of a training on pairs that belong together, and reads its config.
#include "train/config/sentence_config.h"

#include "train/config/training_keys.h"

namespace qkv::training {
namespace {

std::vector<ConfigKey<SentenceConfig>> make_sentence_keys() {
  using C = SentenceConfig;
  using K = KeysOf<C>;
  std::vector<ConfigKey<C>> keys{
      K::choice(
          {"", "kind", "-", "What is trained: vectors of texts that belong together."},
          [](C& c) -> auto& { return c.kind; }, {{"contrast", TrainedKind::contrast}}, kRequired),
      K::choice({"model", "pooling", "-", "What becomes a text's vector: the mean of all tokens, or the first one."},
                [](C& c) -> auto& { return c.pooling; },
                {{"mean", SentencePooling::mean}, {"first", SentencePooling::first}}),
      dropout_key<C>(),
      dtype_key<C>(),
      K::integer(
          {"training", "batch", "pairs", "Pairs of a batch; each text is compared with all partners in it."},
          [](C& c) -> auto& { return c.training.batch_tokens; }, 1),
      K::integer(
          {"training", "chunk", "texts", "Texts that pass through the encoder together; memory grows with it. 0: all."},
          [](C& c) -> auto& { return c.chunk; }, 0),
      K::number({"training", "temperature", "-", "What cosines are divided by before their softmax; above 0."},
                [](C& c) -> auto& { return c.temperature; }),
      longest_text_key<C>(
          "Longest text, special tokens included; longer ones lose their ends. 0: all positions of the model."),
  };
  add_training_keys(keys);
  return keys;
}

}  // namespace

const std::vector<ConfigKey<SentenceConfig>>& sentence_keys() {
  static const std::vector<ConfigKey<SentenceConfig>> keys = make_sentence_keys();
  return keys;
}

std::string sentence_keys_text() {
  return "Keys of a config whose \"kind\" is \"contrast\":\n" +
         keys_text({sentence_keys().begin(), sentence_keys().end()});
}

std::string sentence_keys_markdown() { return keys_markdown({sentence_keys().begin(), sentence_keys().end()}); }

SentenceConfig read_sentence_config(const std::string& path) {
  const io::JsonDocument document = io::JsonDocument::of_config(path);
  const io::JsonValue root = document.root();
  SentenceConfig config;
  read_keys(root, sentence_keys(), config);
  if (!(config.temperature > 0)) root["training"]["temperature"].refuse("must be above 0");
  expect_end(root["training"], config.training);
  return config;
}

}  // namespace qkv::training
