// Pictures prepared for a model: what transformers makes of them, by tests/golden/image_processor/make.py, and what is
// refused.
#include "qkv/models/image_processor.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "io/files_for_test.h"
#include "qkv/files.h"
#include "qkv/pictures.h"

namespace qkv {
namespace {

using nlohmann::json;
using test::message_of;

const std::string kGolden = QKV_TEST_DATA "/golden/image_processor/";

// What is read in a folder with this preprocessor_config.json.
ImageProcessorConfig read(const json& config) {
  const test::TemporaryFolder folder;
  folder.put("preprocessor_config.json", config.dump());
  return ImageProcessor::read_config(folder / "");
}

json vit(const json& changes = json::object()) {
  json config = {{"image_processor_type", "ViTImageProcessor"}};
  config.update(changes);
  return config;
}

Tensor random_picture(std::int64_t height, std::int64_t width) {
  Tensor picture = Tensor::uninitialized({height, width, 3}, Dtype::u8);
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < picture.element_count(); ++i) {
    state = state * 1664525 + 1013904223;
    picture.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(state >> 24);
  }
  return picture;
}

TEST(ImageProcessor, MakesWhatTransformersMakes) {
  const SafeTensors tensors = read_safetensors(kGolden + "cases.safetensors");
  const json cases = json::parse(test::slurp(kGolden + "cases.json"));
  EXPECT_GE(cases.size(), 30u);
  for (const auto& [name, config] : cases.items()) {
    SCOPED_TRACE(name);
    const ImageProcessor processor(read(config));
    test::expect_equal(processor.process(tensors.tensors.at(name + ".picture")), tensors.tensors.at(name));
  }
}

TEST(ImageProcessor, AnyStridesAndThreads) {
  const ImageProcessor processor({.resize = ImageProcessorConfig::Resize{.size = {.height = 37, .width = 50}}});
  const Tensor picture = random_picture(101, 83);
  const Tensor expected = processor.process(picture, 1);
  for (const int threads : {2, 3, 8}) test::expect_equal(processor.process(picture, threads), expected);
  const Tensor turned = Tensor::copy(picture.view().transpose(0, 1));
  test::expect_equal(processor.process(turned.view().transpose(0, 1)), expected);
  const Tensor row = random_picture(1, 1);
  const TensorView repeated = row.view().broadcast_to({9, 4, 3});
  test::expect_equal(processor.process(repeated), processor.process(Tensor::copy(repeated)));
}

TEST(ImageProcessor, NumbersByHand) {
  const Tensor picture = Tensor::of<std::uint8_t>({1, 2, 3}, {0, 51, 255, 102, 204, 153});
  const ImageProcessor plain({.resize = {}, .rescale_factor = {}, .normalize = {}});
  EXPECT_EQ(test::values_of(plain.process(picture)), (std::vector<double>{0, 51, 255, 102, 204, 153}));
  const ImageProcessor normal(
      {.resize = {},
       .rescale_factor = 0.5,
       .normalize = ImageProcessorConfig::Normalize{.mean = {1, 2, 3}, .deviation = {2, 4, 0.5f}}});
  EXPECT_EQ(test::values_of(normal.process(picture)), (std::vector<double>{-0.5, 5.875, 249, 25, 25, 147}));
  // A crop around it: transformers puts the odd column of zeros in front.
  const ImageProcessor framed(
      {.resize = {}, .center_crop = PictureSize{.height = 2, .width = 3}, .rescale_factor = {}, .normalize = {}});
  EXPECT_EQ(test::values_of(framed.process(picture)),
            (std::vector<double>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 51, 255, 102, 204, 153}));
}

TEST(ImageProcessor, DefaultsOfEachClass) {
  const ImageProcessorConfig plain = read(vit());
  EXPECT_EQ(plain.resize->size.height, 224);
  EXPECT_EQ(plain.resize->size.width, 224);
  EXPECT_EQ(plain.resize->shortest_edge, 0);
  EXPECT_EQ(plain.resize->resampling, Resampling::bilinear);
  EXPECT_FALSE(plain.center_crop);
  EXPECT_EQ(plain.rescale_factor, 1 / 255.0);
  EXPECT_EQ(plain.normalize->mean, (std::array{0.5f, 0.5f, 0.5f}));
  EXPECT_EQ(plain.normalize->deviation, (std::array{0.5f, 0.5f, 0.5f}));
  const ImageProcessorConfig bit = read({{"image_processor_type", "BitImageProcessorFast"}, {"do_pad", false}});
  EXPECT_EQ(bit.resize->shortest_edge, 224);
  EXPECT_EQ(bit.resize->resampling, Resampling::bicubic);
  EXPECT_EQ(bit.center_crop->height, 224);
  EXPECT_EQ(bit.center_crop->width, 224);
  EXPECT_EQ(bit.normalize->mean, (std::array{0.48145466f, 0.4578275f, 0.40821073f}));
  EXPECT_EQ(bit.normalize->deviation, (std::array{0.26862954f, 0.26130258f, 0.27577711f}));
}

TEST(ImageProcessor, FilesOfWellKnownModels) {
  // google/vit-base-patch16-224 and facebook/dinov2-small, as their folders have them.
  const ImageProcessorConfig old = read({{"do_normalize", true},
                                         {"do_resize", true},
                                         {"feature_extractor_type", "ViTFeatureExtractor"},
                                         {"image_mean", {0.5, 0.5, 0.5}},
                                         {"image_std", {0.5, 0.5, 0.5}},
                                         {"resample", 2},
                                         {"size", 224}});
  EXPECT_EQ(old.resize->size.height, 224);
  EXPECT_EQ(old.resize->shortest_edge, 0);
  const ImageProcessorConfig dino = read({{"crop_size", {{"height", 224}, {"width", 224}}},
                                          {"do_center_crop", true},
                                          {"do_convert_rgb", true},
                                          {"do_normalize", true},
                                          {"do_rescale", true},
                                          {"do_resize", true},
                                          {"image_mean", {0.485, 0.456, 0.406}},
                                          {"image_processor_type", "BitImageProcessor"},
                                          {"image_std", {0.229, 0.224, 0.225}},
                                          {"resample", 3},
                                          {"rescale_factor", 0.00392156862745098},
                                          {"size", {{"shortest_edge", 256}}}});
  EXPECT_EQ(dino.resize->shortest_edge, 256);
  EXPECT_EQ(dino.normalize->mean[0], 0.485f);
}

TEST(ImageProcessor, RefusesKeysByName) {
  const auto refusal = [](const json& config) {
    const std::string message = message_of<FormatError>([&] { read(config); });
    const std::string file = "preprocessor_config.json: ";
    return message.substr(std::min(message.find(file) + file.size(), message.size()));
  };
  EXPECT_EQ(refusal(vit({{"do_flip", true}})), "do_flip is unknown: it may change the numbers");
  EXPECT_EQ(refusal(vit({{"do_pad", true}})), "do_pad must be false");
  EXPECT_EQ(refusal(vit({{"pad_size", 3}})), "pad_size must be null");
  EXPECT_EQ(refusal(vit({{"resample", 1}})), "resample is 1; 2 (bilinear) and 3 (bicubic) are supported");
  EXPECT_EQ(refusal(vit({{"resample", 9}})), "resample is 9, must be 0 to 5");
  EXPECT_EQ(refusal(vit({{"do_resize", 1}})), "do_resize must be true or false, is number");
  EXPECT_EQ(refusal(vit({{"size", 0}})), "size is 0, must be 1 to 8000");
  EXPECT_EQ(refusal(vit({{"size", 2.5}})), "size must be an integer, is number");
  EXPECT_EQ(refusal(vit({{"size", "big"}})), "size must be an object, is string");
  EXPECT_EQ(refusal(vit({{"size", {{"height", 3}}}})), "size.width is missing");
  EXPECT_EQ(refusal(vit({{"size", {{"height", 3}, {"width", 8001}}}})), "size.width is 8001, must be 1 to 8000");
  EXPECT_EQ(refusal(vit({{"size", {{"longest_edge", 3}}}})),
            "size.longest_edge is not supported here; height and width are");
  EXPECT_EQ(refusal(vit({{"size", {{"shortest_edge", 3}, {"longest_edge", 9}}}})),
            "size.longest_edge is not supported beside shortest_edge");
  EXPECT_EQ(refusal(vit({{"do_center_crop", true}})), "do_center_crop is true, but there is no crop_size");
  EXPECT_EQ(refusal(vit({{"do_center_crop", true}, {"crop_size", {{"shortest_edge", 3}}}})),
            "crop_size.shortest_edge is not supported here; height and width are");
  EXPECT_EQ(refusal(vit({{"rescale_factor", 0}})), "rescale_factor is 0, must be 9.5367431640625e-07 to 1048576");
  EXPECT_EQ(refusal(vit({{"image_mean", {0.5, 0.5}}})), "image_mean has 2 numbers, must have 3");
  EXPECT_EQ(refusal(vit({{"image_mean", {0.5, 0.5, 1e7}}})), "image_mean[2] is 10000000, must be -1048576 to 1048576");
  EXPECT_EQ(refusal(vit({{"image_std", {0.5, 0, 0.5}}})), "image_std[1] is 0, must be 9.5367431640625e-07 to 1048576");
  EXPECT_EQ(refusal(vit({{"image_std", "x"}})), "image_std must be a number, is string");
  EXPECT_EQ(refusal({{"image_processor_type", "CLIPImageProcessor"}}),
            "image_processor_type must be \"ViTImageProcessor\" or \"BitImageProcessor\", is \"CLIPImageProcessor\"");
  EXPECT_EQ(refusal(json::object()), "feature_extractor_type is missing");
  EXPECT_EQ(refusal(json::array()), "the document must be an object, is array");
}

TEST(ImageProcessor, RefusesConfigsThatCannotBe) {
  using Config = ImageProcessorConfig;
  const Config configs[] = {{.resize = Config::Resize{.size = {.height = 0, .width = 1}}},
                            {.resize = Config::Resize{.size = {.height = 1, .width = 8001}}},
                            {.resize = Config::Resize{.shortest_edge = -1}},
                            {.center_crop = PictureSize{.height = 1, .width = 0}},
                            {.rescale_factor = 0.0},
                            {.rescale_factor = NAN},
                            {.normalize = Config::Normalize{.mean = {0, INFINITY, 0}}},
                            {.normalize = Config::Normalize{.deviation = {1, 1, 0}}}};
  for (const Config& config : configs) EXPECT_THROW(ImageProcessor{config}, std::invalid_argument);
}

TEST(ImageProcessor, RefusesWhatIsNoPicture) {
  const ImageProcessor processor(ImageProcessorConfig{});
  for (const Tensor& bad :
       {Tensor::zeros({4, 4, 3}), Tensor::zeros({4, 4}, Dtype::u8), Tensor::zeros({4, 4, 4}, Dtype::u8),
        Tensor::zeros({0, 4, 3}, Dtype::u8), Tensor::zeros({1, 4, 4, 3}, Dtype::u8)}) {
    EXPECT_THROW(processor.process(bad), std::invalid_argument);
  }
  const ImageProcessor shortest({.resize = ImageProcessorConfig::Resize{.shortest_edge = 300}});
  EXPECT_EQ(
      message_of<std::invalid_argument>([&] { shortest.process(Tensor::zeros({1, 4000, 3}, Dtype::u8)); }),
      "ImageProcessor: 4000 x 1 pixels would become 1200000 x 300; at most 64000000 in all and 1000000 along an edge "
      "are possible");
}

}  // namespace
}  // namespace qkv
