// Reads and writes preprocessor_config.json.
#include "models/image_processor_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "io/json_document.h"
#include "io/text.h"
#include "models/model_config.h"
#include "qkv/files.h"
#include "qkv/models/image_processor.h"

namespace qkv {
namespace {

using io::JsonValue;

// What a class does where its file is silent (transformers 5.23).
struct ProcessorClass {
  const char* name;
  bool square;  // what one number as the size means
  bool center_crop;
  ImageProcessorConfig::Resize resize;
  ImageProcessorConfig::Normalize normalize;
};

constexpr ProcessorClass kClasses[] = {
    {.name = "ViT", .square = true, .center_crop = false, .resize = {}, .normalize = {}},
    {.name = "Bit",
     .square = false,
     .center_crop = true,
     .resize = {.shortest_edge = 224, .resampling = Resampling::bicubic},
     .normalize = {.mean = {0.48145466f, 0.4578275f, 0.40821073f},
                   .deviation = {0.26862954f, 0.26130258f, 0.27577711f}}}};

constexpr std::string_view kRead[] = {"crop_size",
                                      "default_to_square",
                                      "do_center_crop",
                                      "do_normalize",
                                      "do_rescale",
                                      "do_resize",
                                      "feature_extractor_type",
                                      "image_mean",
                                      "image_processor_type",
                                      "image_std",
                                      "resample",
                                      "rescale_factor",
                                      "size"};
// No number of ours depends on these.
constexpr std::string_view kIgnored[] = {"_valid_processor_keys", "data_format",     "device",
                                         "disable_grouping",      "do_convert_rgb",  "image_seq_length",
                                         "input_data_format",     "processor_class", "return_tensors"};
// Steps that are not here.
constexpr FixedKey kFixed[] = {{"do_pad", "false"}, {"pad_size", "null"}, {"size_divisor", "null"}};

void check_keys(const JsonValue& root) {
  root.for_each_member([](const std::string& key, const JsonValue& value) {
    const auto has = [&](const auto& keys) {
      return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
    };
    if (has(kRead) || has(kIgnored)) return;
    for (const FixedKey& fixed : kFixed) {
      if (key != fixed.key) continue;
      if (!value.is("null") && !value.is(fixed.value)) value.refuse(fmt::format("must be {}", fixed.value));
      return;
    }
    value.refuse("is unknown: it may change the numbers");
  });
}

const ProcessorClass& class_of(const JsonValue& root) {
  const auto type = root.find("image_processor_type");
  const JsonValue name = type ? *type : root["feature_extractor_type"];
  for (const ProcessorClass& known : kClasses) {
    for (const char* ending : {"ImageProcessor", "ImageProcessorFast", "ImageProcessorPil", "FeatureExtractor"}) {
      if (name.string() == std::string(known.name) + ending) return known;
    }
  }
  name.refuse(fmt::format("must be \"ViTImageProcessor\" or \"BitImageProcessor\", is {}", io::quote(name.string())));
}

bool flag(const JsonValue& root, const char* key, bool otherwise) {
  const auto value = root.find(key);
  return value ? value->boolean() : otherwise;
}

std::int64_t edge(const JsonValue& value) { return value.integer(1, kLongestProcessedEdge); }

// A size as one number or as the members height and width. Any other member is refused.
PictureSize read_size(const JsonValue& size) {
  if (size.is_number()) return {.height = edge(size), .width = edge(size)};
  size.for_each_member([](const std::string& key, const JsonValue& value) {
    if (key != "height" && key != "width") value.refuse("is not supported here; height and width are");
  });
  return {.height = edge(size["height"]), .width = edge(size["width"])};
}

void read_resize(const JsonValue& root, bool square, ImageProcessorConfig::Resize& resize) {
  if (const auto size = root.find("size")) {
    resize.shortest_edge = 0;
    if (size->is_number() && !square) {
      resize.shortest_edge = edge(*size);
    } else if (!size->is_number() && size->find("shortest_edge")) {
      size->for_each_member([](const std::string& key, const JsonValue& value) {
        if (key != "shortest_edge") value.refuse("is not supported beside shortest_edge");
      });
      resize.shortest_edge = edge((*size)["shortest_edge"]);
    } else {
      resize.size = read_size(*size);
    }
  }
  if (const auto resample = root.find("resample")) {
    const std::int64_t filter = resample->integer(0, 5);
    if (filter != 2 && filter != 3)
      resample->refuse(fmt::format("is {}; 2 (bilinear) and 3 (bicubic) are supported", filter));
    resize.resampling = filter == 2 ? Resampling::bilinear : Resampling::bicubic;
  }
}

double number(const JsonValue& value, double least) {
  const double number = value.number();
  if (number < least || number > kMostFactor) {
    value.refuse(fmt::format("is {}, must be {} to {}", number, least, kMostFactor));
  }
  return number;
}

void read_channels(const JsonValue& root, const char* key, double least, std::array<float, 3>& numbers) {
  const auto value = root.find(key);
  if (!value) return;
  const auto list = value->is_list() ? value->elements() : std::vector(3, *value);
  if (list.size() != 3) value->refuse(fmt::format("has {} numbers, must have 3", list.size()));
  for (std::size_t i = 0; i < 3; ++i) numbers[i] = static_cast<float>(number(list[i], least));
}

}  // namespace

ImageProcessorConfig ImageProcessor::read_config(const std::string& folder) {
  const auto document = io::JsonDocument::of_config(folder + "/preprocessor_config.json");
  const JsonValue root = document.root();
  check_keys(root);
  const ProcessorClass& defaults = class_of(root);
  ImageProcessorConfig config;
  config.resize.reset();
  if (flag(root, "do_resize", true)) {
    config.resize = defaults.resize;
    read_resize(root, flag(root, "default_to_square", defaults.square), *config.resize);
  }
  if (flag(root, "do_center_crop", defaults.center_crop)) {
    const auto size = root.find("crop_size");
    if (!size && !defaults.center_crop) root["do_center_crop"].refuse("is true, but there is no crop_size");
    config.center_crop = size ? read_size(*size) : PictureSize{224, 224};
  }
  if (!flag(root, "do_rescale", true)) {
    config.rescale_factor.reset();
  } else if (const auto factor = root.find("rescale_factor")) {
    config.rescale_factor = number(*factor, kLeastFactor);
  }
  config.normalize.reset();
  if (flag(root, "do_normalize", true)) {
    config.normalize = defaults.normalize;
    read_channels(root, "image_mean", -kMostFactor, config.normalize->mean);
    read_channels(root, "image_std", kLeastFactor, config.normalize->deviation);
  }
  return config;
}

void ImageProcessor::save(const std::string& folder) const {
  using Json = nlohmann::ordered_json;
  const auto both = [](const PictureSize& size) { return Json{{"height", size.height}, {"width", size.width}}; };
  Json json{{"image_processor_type", "ViTImageProcessor"},
            {"do_resize", config_.resize.has_value()},
            {"do_center_crop", config_.center_crop.has_value()},
            {"do_rescale", config_.rescale_factor.has_value()},
            {"do_normalize", config_.normalize.has_value()}};
  if (config_.resize) {
    const std::int64_t edge = config_.resize->shortest_edge;
    json["size"] = edge > 0 ? Json{{"shortest_edge", edge}} : both(config_.resize->size);
    json["resample"] = config_.resize->resampling == Resampling::bilinear ? 2 : 3;
  }
  if (config_.center_crop) json["crop_size"] = both(*config_.center_crop);
  if (config_.rescale_factor) json["rescale_factor"] = *config_.rescale_factor;
  if (config_.normalize) {
    json["image_mean"] = config_.normalize->mean;
    json["image_std"] = config_.normalize->deviation;
  }
  write_file(folder + "/preprocessor_config.json", json.dump(2) + "\n");
}

}  // namespace qkv
