// Reads, checks and writes the config.json of encoder-decoders, lists the tensors with their names here and there, and
// converts between the files of such a model's folder and a TransformerEncoderDecoderConfig and Weights.
#include "models/encoder_decoders/transformer_encoder_decoder_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "models/encoder_decoders/encoder_decoder_kind.h"
#include "models/encoder_decoders/target_tokens.h"
#include "models/model_config.h"
#include "qkv/files.h"

namespace qkv::inline models {
namespace {

// The kind whose class holds such a model; none: nullptr.
const ModelKind* kind_of(const TransformerEncoderDecoderConfig& config) {
  if (config.normalization != Normalization::layer || config.position_kind != TransformerPositions::of_kind)
    return nullptr;
  for (const ModelKind& kind : model_kinds()) {
    const auto* own = kind.as<EncoderDecoderKind>();
    if (own == nullptr || own->architecture == nullptr) continue;
    const bool tables = config.target_vocab == 0 || own->two_tables;
    if (own->kind == config.kind && own->norm_order == config.norm_order && tables) return &kind;
  }
  return nullptr;
}

template <class Choice>
using ChoiceNames = std::vector<std::pair<const char*, Choice>>;

const ChoiceNames<TransformerEncoderDecoderKind> kKinds = {{"marian", TransformerEncoderDecoderKind::marian},
                                                           {"bart", TransformerEncoderDecoderKind::bart}};
const ChoiceNames<Normalization> kNormalizations = {{"layer", Normalization::layer}, {"rms", Normalization::rms}};
const ChoiceNames<TransformerPositions> kPositionKinds = {{"of_kind", TransformerPositions::of_kind},
                                                          {"rotary", TransformerPositions::rotary}};

template <class Choice>
Choice choice_of(const io::JsonValue& value, const ChoiceNames<Choice>& names) {
  for (const auto& [name, choice] : names) {
    if (value.string() == name) return choice;
  }
  value.refuse(fmt::format("must be \"{}\" or \"{}\"", names[0].first, names[1].first));
}

template <class Choice>
const char* name_of(Choice choice, const ChoiceNames<Choice>& names) {
  return names[0].second == choice ? names[0].first : names[1].first;
}

// What model_type says of a model, and of one of our own the keys that only such a one has.
TransformerEncoderDecoderConfig read_family(const ModelConfig& json) {
  const auto& kind = family_of_kind<EncoderDecoderKind>(json["model_type"], "encoder-decoders");
  if (kind.architecture != nullptr) return {.kind = kind.kind, .norm_order = kind.norm_order};
  return {.kind = choice_of(json["kind"], kKinds),
          .norm_order = json["normalize_before"].boolean() ? NormOrder::pre : NormOrder::post,
          .normalization = choice_of(json["normalization"], kNormalizations),
          .position_kind = choice_of(json["position_kind"], kPositionKinds)};
}

// Settings with only one supported value.
void expect_fixed(const ModelConfig& json, const TransformerEncoderDecoderConfig& config) {
  const auto text = [](bool value) { return value ? "true" : "false"; };
  const char* const pre = text(config.norm_order == NormOrder::pre);
  const FixedKey fixed[] = {{"normalize_before", pre},
                            {"add_final_layer_norm", pre},
                            {"tie_word_embeddings", "true"},
                            {"normalize_embedding", text(meaning_of(config.kind).embedding_norm)},
                            {"static_position_embeddings", text(has_sinusoids(config))},
                            {"is_decoder", "false"}};
  json.expect(fixed);
}

// Whether each side has a table of its own, and that the family allows it.
bool read_two_tables(const ModelConfig& json) {
  if (json.flag("share_encoder_decoder_embeddings", true)) return false;
  const auto& kind = family_of_kind<EncoderDecoderKind>(json["model_type"], "encoder-decoders");
  if (kind.architecture != nullptr && !kind.two_tables) {
    json["share_encoder_decoder_embeddings"].refuse("must be true for this model");
  }
  return true;
}

}  // namespace

bool has_sinusoids(const TransformerEncoderDecoderConfig& config) {
  return config.position_kind == TransformerPositions::of_kind && meaning_of(config.kind).sinusoids;
}

bool has_position_tables(const TransformerEncoderDecoderConfig& config) {
  return config.position_kind == TransformerPositions::of_kind && !meaning_of(config.kind).sinusoids;
}

TransformerEncoderDecoderConfig read_folder_config(const std::string& folder) {
  const ModelConfig json(folder);
  TransformerEncoderDecoderConfig config = read_family(json);
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
  if (read_two_tables(json)) {
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

std::string folder_config_json(const TransformerEncoderDecoderConfig& config, Dtype dtype) {
  const ModelKind* kind = kind_of(config);
  const bool pre = config.norm_order == NormOrder::pre;
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (kind != nullptr) {
    json.update({{"architectures", {kind->as<EncoderDecoderKind>()->architecture}}, {"model_type", kind->type}});
  } else {
    json.update({{"model_type", "qkv"},
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
               {"normalize_embedding", meaning_of(config.kind).embedding_norm},
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

std::optional<std::int32_t> excluded(const TransformerEncoderDecoderConfig& config) {
  return meaning_of(config.kind).excludes_padding ? std::optional(config.padding) : std::nullopt;
}

std::string transformers_class_of(const TransformerEncoderDecoderConfig& config) {
  const ModelKind* kind = kind_of(config);
  return kind != nullptr ? kind->as<EncoderDecoderKind>()->architecture : "";
}

namespace {

// A layer's own names, which those of the folder are below the same scope.
void add_attention(TensorNames& names, const std::string& scope, const char* ours, const char* theirs,
                   std::int64_t dim) {
  const std::string from = scope + theirs;
  names.add_attention(scope + ours, {from + ".q_proj", from + ".k_proj", from + ".v_proj"}, from + ".out_proj", dim);
}

void add_feed_forward(TensorNames& names, const std::string& scope, std::int64_t dim, std::int64_t ff_dim) {
  names.add_linear(scope + "linear1", scope + "fc1", ff_dim, dim);
  names.add_linear(scope + "linear2", scope + "fc2", dim, ff_dim);
}

void add_side(TensorNames& names, const std::string& side, const TransformerEncoderDecoderConfig& config) {
  const std::int64_t dim = config.model_dim;
  if (config.target_vocab > 0) {
    const std::int64_t vocab = side == "encoder." ? config.vocab : config.target_vocab;
    names.add(side + kTable + "weight", {vocab, dim}, {side + "embed_tokens.weight"});
  }
  if (config.norm_order == NormOrder::pre) names.add_norm(side + "norm", side + "layer_norm", dim);
  if (has_position_tables(config)) {
    names.add(side + kPositions + "weight", {config.positions + kReservedPositions, dim},
              {side + "embed_positions.weight"});
  }
  if (meaning_of(config.kind).embedding_norm)
    names.add_norm(side + "embedding_norm", side + "layernorm_embedding", dim);
}

}  // namespace

TensorNames names_of(const TransformerEncoderDecoderConfig& config, const std::string& prefix) {
  const std::int64_t dim = config.model_dim;
  TensorNames names(prefix, config.normalization);
  if (config.target_vocab == 0) names.add("shared.weight", {config.vocab, dim}, {"shared.weight"});
  for (const char* side : {"encoder.", "decoder."}) add_side(names, side, config);
  for (std::int64_t i = 0; i < config.encoder_layers; ++i) {
    const std::string layer = fmt::format("encoder.layers.{}.", i);
    add_attention(names, layer, "self_attn", "self_attn", dim);
    names.add_norm(layer + "norm1", layer + "self_attn_layer_norm", dim);
    add_feed_forward(names, layer, dim, config.encoder_ff_dim);
    names.add_norm(layer + "norm2", layer + "final_layer_norm", dim);
  }
  for (std::int64_t i = 0; i < config.decoder_layers; ++i) {
    const std::string layer = fmt::format("decoder.layers.{}.", i);
    add_attention(names, layer, "self_attn", "self_attn", dim);
    names.add_norm(layer + "norm1", layer + "self_attn_layer_norm", dim);
    add_attention(names, layer, "multihead_attn", "encoder_attn", dim);
    names.add_norm(layer + "norm2", layer + "encoder_attn_layer_norm", dim);
    add_feed_forward(names, layer, dim, config.decoder_ff_dim);
    names.add_norm(layer + "norm3", layer + "final_layer_norm", dim);
  }
  if (!prefix.empty()) names.add_head(kLogitsBias, {config.output_vocab()}, {1, config.output_vocab()});
  return names;
}

namespace {

void expect_tensors(FolderTensors& file, const TransformerEncoderDecoderConfig& config) {
  const bool two = config.target_vocab > 0;
  const std::string table = two ? "decoder.embed_tokens.weight" : "shared.weight";
  const bool bare = file.contains(table) && !file.contains("model." + table);
  const std::string prefix = bare ? "" : "model.";
  file.tie("lm_head.weight", prefix + table);
  for (const char* side : {"encoder.", "decoder."}) {
    if (!two) file.tie(prefix + side + "embed_tokens.weight", prefix + table);
  }
  if (has_sinusoids(config)) {  // they follow from the config
    file.pass_over([&](std::string_view name) {
      return name == prefix + "encoder.embed_positions.weight" || name == prefix + "decoder.embed_positions.weight";
    });
  }
  file.expect(names_of(config, prefix).all());
}

}  // namespace

TransformerEncoderDecoderFolder::TransformerEncoderDecoderFolder(const std::string& folder)
    : config_(read_folder_config(folder)), tensors_(folder) {
  expect_tensors(tensors_, config_);
}

Weights TransformerEncoderDecoderFolder::weights(WeightStorage storage) {
  Weights weights = tensors_.weights(storage);
  if (!tensors_.contains(kLogitsBias)) weights.add(kLogitsBias, Tensor::zeros({config_.output_vocab()}));  // bare model
  return weights;
}

void write_folder(const std::string& folder, const TransformerEncoderDecoder& model, Dtype dtype) {
  const TensorNames names = names_of(model.config());
  std::map<std::string, Tensor> theirs;
  model.visit([&](const std::string& name, const Parameter& own) { names.add_theirs(name, own.value, dtype, theirs); });
  write_file(folder + "/config.json", folder_config_json(model.config(), dtype));
  write_file(folder + "/generation_config.json", generation_json(model.tokens(), excluded(model.config())));
  // Last: a folder that has weights is whole.
  write_safetensors(folder + "/model.safetensors", {.tensors = std::move(theirs), .metadata = {{"format", "pt"}}});
}

}  // namespace qkv::inline models
