// The cases of models that certify() computes.
#include <algorithm>
#include <vector>

#include "pipelines/certified_cases.h"
#include "pipelines/number_digest.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/layers/sequences.h"
#include "qkv/models/language_model.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/transformer_encoder_decoder.h"
#include "qkv/train/adam.h"

namespace qkv::inline pipelines {
namespace {

constexpr std::uint64_t kSeed = 11;

std::vector<std::int32_t> drawn_tokens(Random& random, std::int64_t count, std::int32_t least, std::int32_t vocab) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::int32_t& token : tokens) {
    token = least + static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocab - least)));
  }
  return tokens;
}

std::uint64_t digest_of_texts(const std::vector<std::vector<Hypothesis>>& found) {
  NumberDigest digest;
  for (const std::vector<Hypothesis>& best : found) {
    for (const Hypothesis& hypothesis : best) {
      for (const std::int32_t token : hypothesis.tokens) digest.add_number(static_cast<double>(token));
      digest.add_number(hypothesis.log_probability);
      digest.add_number(hypothesis.score);
    }
  }
  return digest.value();
}

std::uint64_t encoded_texts() {
  constexpr std::int32_t kVocab = 60;
  const std::vector<std::int64_t> lengths{7, 30, 13};
  Weights weights = initial_weights(kSeed);
  const TextEncoder model(
      {.vocab = kVocab, .positions = 32, .types = 2, .model_dim = 48, .layers = 3, .heads = 4, .ff_dim = 96}, weights);
  Random random(kSeed);
  const auto tokens = drawn_tokens(random, 50, 0, kVocab), types = drawn_tokens(random, 50, 0, 2);
  return digest_of({model.forward({tokens, types, offsets_of(lengths)})});
}

constexpr std::int32_t kTranslatedVocab = 40;
constexpr std::int64_t kSourceLengths[] = {9, 4, 12}, kTargetLengths[] = {8, 6, 11};

PairBatch drawn_pairs(Random& random) {
  return {.source = drawn_tokens(random, 25, 2, kTranslatedVocab),
          .target = drawn_tokens(random, 25, 2, kTranslatedVocab),
          .source_offsets = offsets_of(kSourceLengths),
          .target_offsets = offsets_of(kTargetLengths)};
}

void add_translator_cases(Digests& all) {
  constexpr int kUpdates = 20;
  TransformerEncoderDecoder model = TransformerEncoderDecoder::initial({.vocab = kTranslatedVocab,
                                                                        .positions = 32,
                                                                        .model_dim = 32,
                                                                        .encoder_layers = 2,
                                                                        .decoder_layers = 2,
                                                                        .encoder_heads = 4,
                                                                        .decoder_heads = 4,
                                                                        .encoder_ff_dim = 64,
                                                                        .decoder_ff_dim = 64,
                                                                        .end = 0,
                                                                        .padding = 1,
                                                                        .start = 1},
                                                                       kSeed);
  model.update([](const std::string&, Parameter& own) { own.want_gradient(); });
  Random random(kSeed);
  Adam adam({});
  NumberDigest learnt;
  for (int i = 0; i < kUpdates; ++i) {
    const LossSum loss = model.backward(
        drawn_pairs(random), {.dropout = 0.1, .label_smoothing = 0.1, .seed = static_cast<std::uint64_t>(i)});
    learnt.add_number(loss.sum);
    adam.begin_step(1e-3, 1.0 / static_cast<double>(loss.count));
    model.update([&](const std::string& name, Parameter& own) { adam.step(name, own); });
  }
  model.visit([&](const std::string&, const Parameter& own) { learnt.add(own.value); });
  all["20 training steps"] = learnt.value();
  const PairBatch sources = drawn_pairs(random);
  const auto next = model.decoder(sources.source, sources.source_offsets);
  all["translation"] =
      digest_of_texts(generate(*next, 3, {.start = 1, .ends = {0}, .max_length = 20, .beams = 4, .nbest = 2}));
}

void add_generator_cases(Digests& all) {
  constexpr std::int32_t kVocab = 70;
  TransformerLayerConfig layer{.model_dim = 48,
                               .heads = 4,
                               .ff_dim = 80,
                               .activation = Activation::silu,
                               .epsilon = 1e-6,
                               .bias = false,
                               .gated = true,
                               .norm_order = NormOrder::pre,
                               .normalization = Normalization::rms,
                               .kv_heads = 2,
                               .rotary = RotaryConfig{}};
  Weights weights = initial_weights(kSeed);
  const LanguageModel model(
      {.vocab = kVocab, .positions = 64, .model_dim = layer.model_dim, .layers = {layer, layer, layer}}, weights);
  Random random(kSeed);
  const std::vector<std::vector<std::int32_t>> prompts{drawn_tokens(random, 5, 0, kVocab),
                                                       drawn_tokens(random, 17, 0, kVocab)};
  all["language model"] = digest_of({model.logits(prompts)});
  all["generation"] = digest_of_texts(generate(*model.next_tokens(prompts), prompts, {.ends = {}, .max_length = 24}));
}

}  // namespace

void add_model_cases(Digests& all) {
  all["text encoder"] = encoded_texts();
  add_translator_cases(all);
  add_generator_cases(all);
}

}  // namespace qkv::inline pipelines
