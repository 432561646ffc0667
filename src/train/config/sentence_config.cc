// Lists the keys of a training on pairs that belong together, and reads its config.
#include "train/config/sentence_config.h"

#include "train/config/training_keys.h"

namespace qkv::training {
namespace {

std::vector<ConfigKey<SentenceConfig>> make_sentence_keys() {
  using C = SentenceConfig;
  using K = KeysOf<C>;
  std::vector<ConfigKey<C>> keys{
      K::choice({"", "kind", "-", "Sentence embeddings, trained on pairs of texts that belong together."}, &C::kind,
                {{"contrast", TrainedKind::contrast}}, kRequired),
      K::choice({"model", "pooling", "-", "A text's vector: the mean over all tokens, or the first token's."},
                &C::pooling, {{"mean", SentencePooling::mean}, {"first", SentencePooling::first}}),
      dropout_key<C>(" and outputs of sublayers"),
      dtype_key<C>(),
      K::integer({"training", "batch", "pairs", "Pairs of a batch; each text is compared with all partners in it."},
                 path(&C::training, &TrainingConfig::batch_tokens), 1),
      K::integer(
          {"training", "chunk", "texts", "Texts that pass through the encoder together; memory grows with it. 0: all."},
          &C::chunk, 0),
      K::number({"training", "temperature", "-", "Divides cosines before their softmax; above 0."}, &C::temperature),
      longest_text_key<C>(
          "Longest text, special tokens included; longer ones are truncated. 0: all positions of the model."),
  };
  add_training_keys(keys);
  return keys;
}

}  // namespace

const KeyTable<SentenceConfig>& sentence_keys() {
  static const KeyTable<SentenceConfig> table{"Keys of a config whose \"kind\" is \"contrast\":\n",
                                              make_sentence_keys()};
  return table;
}

SentenceConfig read_sentence_config(const std::string& path) {
  return read_config(path, sentence_keys(), [](const io::JsonValue& root, SentenceConfig& config) {
    if (!(config.temperature > 0)) root["training"]["temperature"].refuse("must be above 0");
  });
}

}  // namespace qkv::training
