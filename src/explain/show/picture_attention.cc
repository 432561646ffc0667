// Collects where the heads of a Vision Transformer look.
#include "qkv/explain/picture_attention.h"

#include <algorithm>
#include <cmath>

#include "explain/measure/rollout.h"
#include "explain/observe/observe.h"
#include "explain/observe/require.h"
#include "explain/show/json_object.h"
#include "qkv/target.h"

namespace qkv {
namespace {

constexpr std::int64_t kClasses = 3;

// All but the class token's.
Tensor patches_of(const double* row, const PictureSize& grid) {
  Tensor patches = Tensor::uninitialized({grid.height, grid.width}, Dtype::f64);
  std::copy_n(row + 1, patches.element_count(), patches.data<double>());
  return patches;
}

}  // namespace

PictureAttention survey_picture(const EncodedPicture& picture, const std::string& token) {
  const AttentionSite& site = picture.attentions().sites.front();
  const AttentionSequence& sequence = picture.attentions().sequences.front();
  const std::int64_t query = find_token(sequence.tokens, token);
  PictureAttention seen{.classes = picture.classes(kClasses),
                        .grid = picture.grid(),
                        .token = sequence.tokens[static_cast<std::size_t>(query)]};
  Rollout rollout(picture);
  std::int64_t layer = 0;
  observe(picture, [&](std::string_view name, const TensorView& value) {
    rollout.receive(name, value);
    if (name != site.scope(layer) + "weights") return;
    for (std::int64_t head = 0; head < site.heads; ++head) {
      const Tensor weights = part_of(value, head);
      const double* row = weights.data<double>() + query * weights.size(1);
      seen.heads.push_back({.index = {.layer = layer, .head = head},
                            .summary = summarize_head(weights, sequence.special),
                            .to_class = row[0],
                            .patches = patches_of(row, seen.grid)});
    }
    ++layer;
  });
  seen.rollout = patches_of(rollout.of(query).data(), seen.grid);
  return seen;
}

Tensor view_of(const Tensor& pixels, const ImageProcessorConfig& config) {
  require(pixels.rank() == 3 && pixels.size(2) == 3 && pixels.dtype() == Dtype::f32,
          "the pixels must be f32 [height, width, 3], got {}", to_string(pixels.shape()));
  Tensor view = Tensor::uninitialized(pixels.shape(), Dtype::u8);
  for (std::int64_t i = 0; i < view.element_count(); ++i) {
    double value = pixels.data<float>()[i];
    const auto channel = static_cast<std::size_t>(i % 3);
    if (config.normalize) value = value * config.normalize->deviation[channel] + config.normalize->mean[channel];
    value = std::round(value / config.rescale_factor.value_or(1));
    view.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
  }
  return view;
}

std::string to_json(const PictureAttention& seen, const TensorView& view) {
  OrderedJson object = json_object(
      "picture", selected_target(), Dtype::f32,
      seen.token == "class" ? "Where the class token looks" : "Where patch " + seen.token + " looks", seen.fingerprint);
  object["grid"] = {seen.grid.height, seen.grid.width};
  object["token"] = seen.token;
  for (const auto& [label, probability] : seen.classes) {
    object["classes"].push_back({{"label", label}, {"probability", io::json_number(probability)}});
  }
  object["rollout"] = json_numbers(seen.rollout);
  object["heads"] = OrderedJson::array();
  for (const PictureAttention::Head& head : seen.heads) {
    object["heads"].push_back({{"layer", head.index.layer},
                               {"head", head.index.head},
                               {"entropy", io::json_number(head.summary.entropy)},
                               {"to_class", json_number_f32(head.to_class)},
                               {"patches", json_numbers(head.patches, Dtype::f32)}});
  }
  object["pixels"] = OrderedJson::array();
  for (std::int64_t y = 0; y < view.size(0); ++y) {
    OrderedJson row = OrderedJson::array();
    for (std::int64_t x = 0; x < view.size(1); ++x) {
      row.push_back(
          {view.at<std::uint8_t>({y, x, 0}), view.at<std::uint8_t>({y, x, 1}), view.at<std::uint8_t>({y, x, 2})});
    }
    object["pixels"].push_back(std::move(row));
  }
  return json_text(object);
}

}  // namespace qkv
