// Reads how queries and keys rotate, with the scalings of transformers that are known here, and the types of layers.
#include "models/layer_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/mathematics.h"
#include "io/files/text.h"
#include "layers/basic/layer_checks.h"

namespace qkv::inline models {
namespace {

using RotaryKind = RotaryScaling::Kind;
constexpr std::pair<const char*, RotaryKind> kScalings[] = {{"default", RotaryKind::none},
                                                            {"linear", RotaryKind::linear},
                                                            {"dynamic", RotaryKind::dynamic},
                                                            {"yarn", RotaryKind::yarn},
                                                            {"llama3", RotaryKind::llama3}};

double above_zero(const io::JsonValue& value) {
  if (!(value.number() > 0)) value.refuse("must be above 0");
  return value.number();
}

double above_zero(const io::JsonValue& parameters, const char* key, double otherwise) {
  const auto value = parameters.find(key);
  return value ? above_zero(*value) : otherwise;
}

// Of a head, what rotates.
double read_share(const io::JsonValue& parameters, const RotaryDefaults& defaults) {
  const double share = above_zero(parameters, "partial_rotary_factor", defaults.partial.value_or(1));
  if (!defaults.partial && share != 1) parameters["partial_rotary_factor"].refuse("must be 1 for this model");
  return share;
}

RotaryKind read_rotary_kind(const io::JsonValue& parameters) {
  auto type = parameters.find("rope_type");
  if (!type) type = parameters.find("type");  // as it was called first
  if (!type) return RotaryKind::none;
  std::vector<std::string> known;
  for (const auto& [name, kind] : kScalings) {
    if (type->string() == name) return kind;
    known.emplace_back(name);
  }
  type->refuse(fmt::format("is {}; the supported scalings of rotary positions are {}", io::quote(type->string()),
                           quoted_list(known, "and")));
}

// The factor of cosines and sines.
double yarn_magnitude(const io::JsonValue& parameters, double factor) {
  if (const auto given = parameters.find("attention_factor")) return above_zero(*given);
  const auto of = [&](double times) { return factor <= 1 ? 1.0 : 0.1 * times * log(factor) + 1; };
  const auto mscale = parameters.find("mscale"), all = parameters.find("mscale_all_dim");
  const bool both = mscale && all && mscale->number() != 0 && all->number() != 0;
  return both ? of(mscale->number()) / of(all->number()) : of(1);
}

RotaryScaling read_rotary_scaling(const io::JsonValue& parameters, const ModelConfig& config) {
  RotaryScaling scaling{.kind = read_rotary_kind(parameters)};
  if (scaling.kind == RotaryKind::none) return scaling;
  const std::int64_t positions = config.size("max_position_embeddings");
  auto original = config.find("original_max_position_embeddings");  // first, as in transformers
  if (!original) original = parameters.find("original_max_position_embeddings");
  scaling.trained = original && scaling.kind != RotaryKind::dynamic ? original->integer(1, kMaxLayerSize) : positions;
  const bool follows = scaling.kind == RotaryKind::yarn && !parameters.find("factor");
  scaling.factor =
      follows ? static_cast<double>(positions) / static_cast<double>(scaling.trained) : parameters["factor"].number();
  if (!(scaling.factor >= 1)) parameters["factor"].refuse("must be 1 or more");
  if (scaling.kind == RotaryKind::yarn) {
    scaling.fast = above_zero(parameters, "beta_fast", 32);
    scaling.slow = above_zero(parameters, "beta_slow", 1);
    scaling.magnitude = yarn_magnitude(parameters, scaling.factor);
    if (const auto truncate = parameters.find("truncate")) scaling.whole = truncate->boolean();
  }
  if (scaling.kind == RotaryKind::llama3) {
    scaling.fast = above_zero(parameters["high_freq_factor"]);
    scaling.slow = above_zero(parameters["low_freq_factor"]);
  }
  if (scaling.slow >= scaling.fast) {
    parameters[scaling.kind == RotaryKind::yarn ? "beta_fast" : "high_freq_factor"].refuse(
        "must be above its counterpart");
  }
  return scaling;
}

}  // namespace

bool is_null(const ModelConfig& config, std::string_view key) {
  bool null = false;
  config.root().for_each_member(
      [&](const std::string& name, const io::JsonValue& value) { null = null || (name == key && value.is("null")); });
  return null;
}

io::JsonValue rotary_parameters(const ModelConfig& config) {
  auto parameters = config.find("rope_scaling");
  if (!parameters || parameters->is("{}")) parameters = config.find("rope_parameters");
  return parameters ? *parameters : config.root();
}

RotaryConfig read_rotary(const io::JsonValue& parameters, const ModelConfig& config, std::int64_t head_dim,
                         const RotaryDefaults& defaults) {
  const double share = read_share(parameters, defaults);
  const auto dims = static_cast<std::int64_t>(static_cast<double>(head_dim) * std::min(share, 2.0));
  RotaryConfig rotary{.base = above_zero(parameters, "rope_theta", defaults.base),
                      .dims = dims == head_dim ? 0 : dims,
                      .scaling = read_rotary_scaling(parameters, config)};
  if (dims < 2 || dims > head_dim || dims % 2 != 0) {
    parameters.refuse(fmt::format("would rotate {} of {} elements of a head; they must be pairs", dims, head_dim));
  }
  return rotary;
}

RotaryConfig read_rotary(const ModelConfig& config, std::int64_t head_dim, const RotaryDefaults& defaults) {
  const io::JsonValue root = config.root();
  RotaryDefaults own = defaults;
  own.base = above_zero(root, "rope_theta", own.base);
  const double share = read_share(root, own);
  if (own.partial) own.partial = share;
  return read_rotary(rotary_parameters(config), config, head_dim, own);
}

std::int64_t readable_positions(const ModelConfig& config, const std::optional<RotaryConfig>& rotary) {
  const std::int64_t positions = config.size("max_position_embeddings");
  if (!rotary || rotary->scaling.kind != RotaryKind::dynamic) return positions;
  return std::min(static_cast<std::int64_t>(static_cast<double>(positions) * std::min(rotary->scaling.factor, 1024.0)),
                  kMaxLayerSize);
}

std::function<bool(std::size_t layer)> windowed_layers(const ModelConfig& json, std::int64_t layers,
                                                       const std::function<bool(std::size_t layer)>& otherwise) {
  const auto types = json.find("layer_types");
  if (!types) return otherwise;
  std::vector<bool> windowed;
  for (const io::JsonValue& type : types->elements()) {
    const std::string name = type.string();
    windowed.push_back(name == "sliding_attention");
    if (!windowed.back() && name != "full_attention") {
      type.refuse(fmt::format("is {}, must be \"full_attention\" or \"sliding_attention\"", io::quote(name)));
    }
  }
  if (std::ssize(windowed) != layers) types->refuse(fmt::format("must have {} elements, one for each layer", layers));
  return [windowed](std::size_t layer) { return windowed[layer]; };
}

}  // namespace qkv::inline models
