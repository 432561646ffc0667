// Reads, checks and writes the config.json of encoder-decoders.
#include "models/marian_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "models/activation_names.h"
#include "models/model_kinds.h"

namespace qkv {
namespace {

constexpr const char* kOwnType = "qkv";  // of what no class of transformers can be

// The kind whose class holds such a model; none: nullptr.
const ModelKind* kind_of(const MarianConfig& config) {
  if (config.normalization != Normalization::layer || config.position_kind != MarianPositions::of_kind) return nullptr;
  for (const ModelKind& kind : model_kinds()) {
    if (kind.marian == nullptr || kind.type == std::string_view(kOwnType)) continue;
    const MarianFamily& family = *kind.marian;
    const bool tables = config.target_vocab == 0 || family.two_tables;
    if (family.kind == config.kind && family.norm_order == config.norm_order && tables) return &kind;
  }
  return nullptr;
}

template <class Choice>
using Names = std::vector<std::pair<const char*, Choice>>;

const Names<MarianKind> kKinds = {{"marian", MarianKind::marian}, {"bart", MarianKind::bart}};
const Names<Normalization> kNormalizations = {{"layer", Normalization::layer}, {"rms", Normalization::rms}};
const Names<MarianPositions> kPositionKinds = {{"of_kind", MarianPositions::of_kind},
                                               {"rotary", MarianPositions::rotary}};

template <class Choice>
Choice choice_of(const io::JsonValue& value, const Names<Choice>& names) {
  for (const auto& [name, choice] : names) {
    if (value.string() == name) return choice;
  }
  value.refuse(fmt::format("must be \"{}\" or \"{}\"", names[0].first, names[1].first));
}

template <class Choice>
const char* name_of(Choice choice, const Names<Choice>& names) {
  return names[0].second == choice ? names[0].first : names[1].first;
}

// What model_type says of a model, and of one of our own the keys that only such a one has.
MarianConfig read_family(const ModelConfig& json) {
  const io::JsonValue type = json["model_type"];
  const MarianFamily& family = part_of_kind(type, &ModelKind::marian, "encoder-decoders");
  if (type.string() != kOwnType) return {.kind = family.kind, .norm_order = family.norm_order};
  return {.kind = choice_of(json["kind"], kKinds),
          .norm_order = json["normalize_before"].boolean() ? NormOrder::pre : NormOrder::post,
          .normalization = choice_of(json["normalization"], kNormalizations),
          .position_kind = choice_of(json["position_kind"], kPositionKinds)};
}

// What such a model has in one way only.
void expect_fixed(const ModelConfig& json, const MarianConfig& config) {
  const auto text = [](bool value) { return value ? "true" : "false"; };
  const char* const pre = text(config.norm_order == NormOrder::pre);
  const FixedKey fixed[] = {{"normalize_before", pre},
                            {"add_final_layer_norm", pre},
                            {"tie_word_embeddings", "true"},
                            {"normalize_embedding", text(config.kind == MarianKind::bart)},
                            {"static_position_embeddings", text(has_sinusoids(config))},
                            {"is_decoder", "false"}};
  json.expect(fixed);
}

// Whether each side has a table of its own, and that the family allows it.
bool read_two_tables(const ModelConfig& json, const MarianConfig& config) {
  if (json.flag("share_encoder_decoder_embeddings", true)) return false;
  MarianConfig with_two = config;
  with_two.target_vocab = 1;
  if (json["model_type"].string() != kOwnType && kind_of(with_two) == nullptr) {
    json["share_encoder_decoder_embeddings"].refuse("must be true for this model");
  }
  return true;
}

}  // namespace

bool has_sinusoids(const MarianConfig& config) {
  return config.kind == MarianKind::marian && config.position_kind == MarianPositions::of_kind;
}

MarianConfig read_marian_config(const std::string& folder) {
  const ModelConfig json(folder);
  MarianConfig config = read_family(json);
  expect_fixed(json, config);
  config.vocab = json.size("vocab_size");
  config.positions = json.size("max_position_embeddings");
  config.model_dim = json.size("d_model");
  config.encoder_layers = json.layers("encoder_layers");
  config.decoder_layers = json.layers("decoder_layers");
  config.encoder_heads = json.heads("encoder_attention_heads", "d_model");
  config.decoder_heads = json.heads("decoder_attention_heads", "d_model");
  config.encoder_ff_dim = json.size("encoder_ffn_dim");
  config.decoder_ff_dim = json.size("decoder_ffn_dim");
  config.activation = json.activation("activation_function");
  config.scale_embedding = json.flag("scale_embedding", false);
  if (read_two_tables(json, config)) {
    config.target_vocab = json.size("decoder_vocab_size");
  } else if (const auto other = json.find("decoder_vocab_size")) {
    other->integer(config.vocab, config.vocab);
  }
  const std::int64_t rows = std::min(config.vocab, config.output_vocab());
  const io::JsonValue ends = json["eos_token_id"];  // of several ends the first one ends sources
  const auto list = ends.is_list() ? ends.elements() : std::vector{ends};
  if (list.empty()) ends.refuse("must have at least one token");
  config.end = static_cast<std::int32_t>(list.front().integer(0, rows - 1));
  config.padding = json.token("pad_token_id", rows);
  config.start = json.token("decoder_start_token_id", config.output_vocab());
  return config;
}

std::string marian_config_json(const MarianConfig& config, Dtype dtype) {
  const ModelKind* kind = kind_of(config);
  const bool pre = config.norm_order == NormOrder::pre;
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (kind != nullptr) {
    json.update({{"architectures", {kind->marian->architecture}}, {"model_type", kind->type}});
  } else {
    json.update({{"model_type", kOwnType},
                 {"kind", name_of(config.kind, kKinds)},
                 {"normalization", name_of(config.normalization, kNormalizations)},
                 {"position_kind", name_of(config.position_kind, kPositionKinds)}});
  }
  json.update({{"is_encoder_decoder", true},
               {"vocab_size", config.vocab},
               {"decoder_vocab_size", config.output_vocab()},
               {"max_position_embeddings", config.positions},
               {"d_model", config.model_dim},
               {"encoder_layers", config.encoder_layers},
               {"decoder_layers", config.decoder_layers},
               {"encoder_attention_heads", config.encoder_heads},
               {"decoder_attention_heads", config.decoder_heads},
               {"encoder_ffn_dim", config.encoder_ff_dim},
               {"decoder_ffn_dim", config.decoder_ff_dim},
               {"activation_function", name_of(config.activation)},
               {"scale_embedding", config.scale_embedding},
               {"normalize_before", pre},
               {"normalize_embedding", config.kind == MarianKind::bart},
               {"add_final_layer_norm", pre},
               {"static_position_embeddings", has_sinusoids(config)},
               {"share_encoder_decoder_embeddings", config.target_vocab == 0},
               {"tie_word_embeddings", true},
               {"eos_token_id", config.end},
               {"forced_eos_token_id", config.end},
               {"pad_token_id", config.padding},
               {"decoder_start_token_id", config.start},
               {"dtype", transformers_dtype(dtype)}});
  return json.dump(2) + "\n";
}

std::optional<std::int32_t> excluded(const MarianConfig& config) {
  if (config.kind == MarianKind::marian) return config.padding;
  return {};
}

std::string marian_class(const MarianConfig& config) {
  const ModelKind* kind = kind_of(config);
  return kind != nullptr ? kind->marian->architecture : "";
}

}  // namespace qkv
