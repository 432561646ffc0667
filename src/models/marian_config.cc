// Reads, checks and writes the config.json of encoder-decoders.
#include "models/marian_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "io/json_document.h"
#include "io/quote.h"
#include "layers/basic/check_size.h"

namespace qkv {
namespace {

constexpr std::int64_t kMaxLayers = 1024;

const std::vector<std::pair<std::string, Activation>>& activations() {
  static const std::vector<std::pair<std::string, Activation>> names = {
      {"relu", Activation::relu}, {"gelu", Activation::gelu}, {"swish", Activation::silu}, {"silu", Activation::silu}};
  return names;
}

Activation activation_of(const io::JsonValue& value) {
  for (const auto& [name, activation] : activations()) {
    if (value.string() == name) return activation;
  }
  value.refuse("must be \"relu\", \"gelu\", \"swish\" or \"silu\"");
}

std::string name_of(Activation activation) {
  for (const auto& [name, own] : activations()) {
    if (own == activation) return name;
  }
  return "";
}

// The model types of transformers, each with what its class can be.
struct Family {
  const char *type, *architecture;
  MarianKind kind;
  NormOrder norm_order;
  bool two_tables;  // each side may have a table of its own
};
constexpr Family kFamilies[] = {{"marian", "MarianMTModel", MarianKind::marian, NormOrder::post, true},
                                {"bart", "BartForConditionalGeneration", MarianKind::bart, NormOrder::post, false},
                                {"mbart", "MBartForConditionalGeneration", MarianKind::bart, NormOrder::pre, false}};

constexpr const char* kOwnType = "qkv";  // of what none of them can be: its config.json has all that sets it apart

// The one that holds such a model; none: nullptr.
const Family* family_of(const MarianConfig& config) {
  if (config.normalization != Normalization::layer || config.position_kind != MarianPositions::of_kind) return nullptr;
  for (const Family& family : kFamilies) {
    const bool tables = config.target_vocab == 0 || family.two_tables;
    if (family.kind == config.kind && family.norm_order == config.norm_order && tables) return &family;
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

// A switch that this model knows in one position only.
void require_flag(const io::JsonValue& root, const std::string& key, bool wanted) {
  const auto value = root.find(key);
  if (value && value->boolean() != wanted) value->refuse(fmt::format("must be {} for this model", wanted));
}

// What model_type says of a model, and of one of our own the fields that only such a one has.
MarianConfig read_family(const io::JsonValue& root) {
  const io::JsonValue type = root["model_type"];
  if (type.string() == kOwnType) {
    return {.kind = choice_of(root["kind"], kKinds),
            .norm_order = root["normalize_before"].boolean() ? NormOrder::pre : NormOrder::post,
            .normalization = choice_of(root["normalization"], kNormalizations),
            .position_kind = choice_of(root["position_kind"], kPositionKinds)};
  }
  std::string known;
  for (const Family& family : kFamilies) {
    if (type.string() == family.type) return {.kind = family.kind, .norm_order = family.norm_order};
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", family.type);
  }
  type.refuse(fmt::format("is {}; the supported encoder-decoders are {} and \"{}\"", io::quote(type.string()), known,
                          kOwnType));
}

// Whether each side has a table of its own, and that the family allows it.
bool read_two_tables(const io::JsonValue& root, const MarianConfig& config) {
  const auto shared = root.find("share_encoder_decoder_embeddings");
  if (!shared || shared->boolean()) return false;
  MarianConfig with_two = config;
  with_two.target_vocab = 1;
  if (root["model_type"].string() != kOwnType && family_of(with_two) == nullptr)
    shared->refuse("must be true for this model");
  return true;
}

}  // namespace

bool has_sinusoids(const MarianConfig& config) {
  return config.kind == MarianKind::marian && config.position_kind == MarianPositions::of_kind;
}

MarianConfig Marian::read_config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  const io::JsonDocument document = io::JsonDocument::of_config(path);
  const io::JsonValue root = document.root();
  MarianConfig config = read_family(root);
  const bool pre = config.norm_order == NormOrder::pre, bart = config.kind == MarianKind::bart;
  for (const char* key : {"normalize_before", "add_final_layer_norm"}) require_flag(root, key, pre);
  require_flag(root, "tie_word_embeddings", true);
  require_flag(root, "normalize_embedding", bart);
  require_flag(root, "static_position_embeddings", has_sinusoids(config));
  const auto size = [&](const char* key) { return root[key].integer(1, kMaxLayerSize); };
  const auto scale = root.find("scale_embedding");
  config.vocab = size("vocab_size");
  config.positions = size("max_position_embeddings");
  config.model_dim = size("d_model");
  config.encoder_layers = root["encoder_layers"].integer(1, kMaxLayers);
  config.decoder_layers = root["decoder_layers"].integer(1, kMaxLayers);
  config.encoder_heads = size("encoder_attention_heads");
  config.decoder_heads = size("decoder_attention_heads");
  config.encoder_ff_dim = size("encoder_ffn_dim");
  config.decoder_ff_dim = size("decoder_ffn_dim");
  config.activation = activation_of(root["activation_function"]);
  config.scale_embedding = scale && scale->boolean();
  if (read_two_tables(root, config)) {
    config.target_vocab = size("decoder_vocab_size");
  } else if (const auto other = root.find("decoder_vocab_size")) {
    other->integer(config.vocab, config.vocab);
  }
  const std::int64_t rows = std::min(config.vocab, config.output_vocab());
  const auto token = [&](const char* key, std::int64_t count) {
    return static_cast<std::int32_t>(root[key].integer(0, count - 1));
  };
  const io::JsonValue ends = root["eos_token_id"];  // of several ends the first one ends sources
  const auto list = ends.is_list() ? ends.elements() : std::vector{ends};
  if (list.empty()) ends.refuse("must have at least one token");
  config.end = static_cast<std::int32_t>(list.front().integer(0, rows - 1));
  config.padding = token("pad_token_id", rows);
  config.start = token("decoder_start_token_id", config.output_vocab());
  for (const char* key : {"encoder_attention_heads", "decoder_attention_heads"}) {
    const std::int64_t heads = size(key);
    if (config.model_dim % heads != 0) {
      root[key].refuse(fmt::format("is {}, must divide d_model, {}", heads, config.model_dim));
    }
  }
  return config;
}

std::string marian_config_json(const MarianConfig& config, Dtype dtype) {
  const char* type = dtype == Dtype::bf16 ? "bfloat16" : dtype == Dtype::f16 ? "float16" : "float32";
  const Family* family = family_of(config);
  const bool pre = config.norm_order == NormOrder::pre;
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (family != nullptr) {
    json.update({{"architectures", {family->architecture}}, {"model_type", family->type}});
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
               {"dtype", type}});
  return json.dump(2) + "\n";
}

std::string marian_generation_json(const MarianConfig& config) {
  using Json = nlohmann::ordered_json;
  Json json = Json::object();
  if (config.kind == MarianKind::marian) json["bad_words_ids"] = Json::array({Json::array({config.padding})});
  json.update(Json{{"decoder_start_token_id", config.start},
                   {"eos_token_id", config.end},
                   {"forced_eos_token_id", config.end},
                   {"max_length", config.positions},
                   {"num_beams", 4},
                   {"pad_token_id", config.padding}});
  return json.dump(2) + "\n";
}

bool Marian::is_in(const std::string& folder) {
  const std::string path = folder + "/config.json";
  const io::JsonDocument document = io::JsonDocument::of_config(path);
  const io::JsonValue root = document.root();
  const auto type = root.find("model_type"), pair = root.find("is_encoder_decoder");
  if (pair && pair->boolean()) return true;
  return type && std::any_of(std::begin(kFamilies), std::end(kFamilies),
                             [&](const Family& family) { return type->string() == family.type; });
}

std::string Marian::class_of(const MarianConfig& config) {
  const Family* family = family_of(config);
  return family != nullptr ? family->architecture : "";
}

}  // namespace qkv
