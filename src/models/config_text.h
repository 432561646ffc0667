// Configs as texts that are equal where the configs are: their fields that are not as by default, so that a field that
// a later version adds changes no text. For fingerprints.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "qkv/models/image_processor.h"
#include "qkv/models/language_model.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/transformer_encoder_decoder.h"
#include "qkv/models/vit.h"

namespace qkv::inline models {

std::string config_text(const PictureSize& config);
std::string config_text(const ProjectionBias& config);
std::string config_text(const AttentionWindow& config);
std::string config_text(const RotaryScaling& config);
std::string config_text(const RotaryConfig& config);
std::string config_text(const TransformerLayerConfig& config);
std::string config_text(const ImageProcessorConfig::Resize& config);
std::string config_text(const ImageProcessorConfig::Normalize& config);
std::string config_text(const ImageProcessorConfig& config);
std::string config_text(const TextEncoderConfig& config);
std::string config_text(const LanguageModelConfig& config);
std::string config_text(const TransformerEncoderDecoderConfig& config);
std::string config_text(const VitConfig& config);

// A number, an enumerator (by its place: new ones go to the end), a text, or a list of these; a struct by
// config_text().
template <class T>
std::string field_text(const T& field) {
  if constexpr (std::is_enum_v<T>) {
    return fmt::format("{}", static_cast<int>(field));
  } else if constexpr (std::is_arithmetic_v<T>) {
    return fmt::format("{}", field);
  } else if constexpr (std::is_convertible_v<T, std::string>) {
    return fmt::format("{}:{}", field.size(), field);
  } else if constexpr (requires { field.begin(); }) {
    std::string text = "[";
    for (const auto& each : field) text += field_text(each) + ",";
    return text + "]";
  } else if constexpr (requires { field.has_value(); }) {
    return field ? field_text(*field) : "none";
  } else {
    return "{" + config_text(field) + "}";
  }
}

// `names` of the fields in `config` and in `defaults`, in order. A structured binding of all of them makes the tuples,
// so that a new field that is not named here does not compile.
template <class... Fields>
std::string changed_fields(const std::array<std::string_view, sizeof...(Fields)>& names,
                           const std::tuple<const Fields&...>& config, const std::tuple<const Fields&...>& defaults) {
  std::string text;
  const auto add = [&](std::string_view name, const std::string& value, const std::string& otherwise) {
    if (value != otherwise) text += fmt::format("{}={} ", name, value);
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (add(names[I], field_text(std::get<I>(config)), field_text(std::get<I>(defaults))), ...);
  }(std::index_sequence_for<Fields...>());
  return text;
}

// The names in "a, b, c".
template <std::size_t count>
std::array<std::string_view, count> names_in(std::string_view list) {
  std::array<std::string_view, count> names;
  for (std::string_view& name : names) {
    name = list.substr(0, list.find(", "));
    list.remove_prefix(std::min(list.size(), name.size() + 2));
  }
  return names;
}

// The changed fields of a Config, all of which are named behind it.
#define QKV_CHANGED_FIELDS(Config, config, ...)                                                                      \
  [&] {                                                                                                              \
    const auto fields = [](const Config& of) {                                                                       \
      const auto& [__VA_ARGS__] = of;                                                                                \
      return std::tie(__VA_ARGS__);                                                                                  \
    };                                                                                                               \
    constexpr std::size_t kCount = std::tuple_size_v<decltype(fields({}))>;                                          \
    return ::qkv::models::changed_fields(::qkv::models::names_in<kCount>(#__VA_ARGS__), fields(config), fields({})); \
  }()

}  // namespace qkv::inline models
