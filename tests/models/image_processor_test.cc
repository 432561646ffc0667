// Pictures prepared for a model: what transformers makes of them, by tests/golden/image_processor/make.py, and what is
// refused.
#include "qkv/models/image_processor.h"

#include <fmt/ranges.h>

#include "models/models_for_test.h"
#include "qkv/pictures.h"

namespace qkv {
namespace {

using nlohmann::json;

// What is read in a folder with this preprocessor_config.json.
ImageProcessorConfig config_in(const json& config) {
  const test::TemporaryFolder folder;
  folder.put("preprocessor_config.json", config.dump());
  return ImageProcessor::read_config(folder / "");
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
  const auto tensors = test::golden_tensors("image_processor/cases.safetensors");
  const json cases = json::parse(test::slurp(test::golden_path("image_processor/cases.json")));
  EXPECT_GE(cases.size(), 30u);
  for (const auto& [name, config] : cases.items()) {
    SCOPED_TRACE(name);
    const ImageProcessor processor(config_in(config));
    test::expect_equal(processor.process(tensors.at(name + ".picture")), tensors.at(name));
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
  EXPECT_EQ(test::values_of(plain.process(picture)), test::values_of(picture));
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

TEST(ImageProcessor, ConfigsOfFiles) {
  const std::pair<const char*, std::string> files[] = {
      // The defaults of each class.
      {R"({"image_processor_type": "ViTImageProcessor"})",
       "224 x 224 or 0 bilinear, 0 x 0, 0.00392156862745098, 0.5 0.5 0.5, 0.5 0.5 0.5"},
      // 0.48145466, 0.4578275, 0.40821073 and 0.26862954, 0.26130258, 0.27577711, as f32.
      {R"({"image_processor_type": "BitImageProcessorFast", "do_pad": false})",
       "224 x 224 or 224 bicubic, 224 x 224, 0.00392156862745098, 0.48145467 0.4578275 0.40821072, "
       "0.26862955 0.2613026 0.2757771"},
      // google/vit-base-patch16-224 and facebook/dinov2-small, as their folders have them.
      {R"({"do_normalize": true, "do_resize": true, "feature_extractor_type": "ViTFeatureExtractor",
           "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "resample": 2, "size": 224})",
       "224 x 224 or 0 bilinear, 0 x 0, 0.00392156862745098, 0.5 0.5 0.5, 0.5 0.5 0.5"},
      {R"({"crop_size": {"height": 224, "width": 224}, "do_center_crop": true, "do_convert_rgb": true,
           "do_normalize": true, "do_rescale": true, "do_resize": true, "image_mean": [0.485, 0.456, 0.406],
           "image_processor_type": "BitImageProcessor", "image_std": [0.229, 0.224, 0.225], "resample": 3,
           "rescale_factor": 0.00392156862745098, "size": {"shortest_edge": 256}})",
       "224 x 224 or 256 bicubic, 224 x 224, 0.00392156862745098, 0.485 0.456 0.406, 0.229 0.224 0.225"}};
  for (const auto& [file, expected] : files) {
    const ImageProcessorConfig config = config_in(json::parse(file));
    const ImageProcessorConfig::Resize& resize = *config.resize;
    const PictureSize crop = config.center_crop.value_or(PictureSize{0, 0});
    EXPECT_EQ(fmt::format("{} x {} or {} {}, {} x {}, {}, {}, {}", resize.size.height, resize.size.width,
                          resize.shortest_edge, resize.resampling == Resampling::bicubic ? "bicubic" : "bilinear",
                          crop.height, crop.width, *config.rescale_factor, fmt::join(config.normalize->mean, " "),
                          fmt::join(config.normalize->deviation, " ")),
              expected);
  }
}

TEST(ImageProcessor, RefusesKeysByName) {
  const json vit = {{"image_processor_type", "ViTImageProcessor"}};
  const test::JsonEdit edits[] = {
      {"/do_flip", "true", "do_flip is unknown: it may change the numbers"},
      {"/do_pad", "true", "do_pad must be false"},
      {"/pad_size", "3", "pad_size must be null"},
      {"/resample", "1", "resample is 1; 2 (bilinear) and 3 (bicubic) are supported"},
      {"/resample", "9", "resample is 9, must be 0 to 5"},
      {"/do_resize", "1", "do_resize must be true or false, is number"},
      {"/size", "0", "size is 0, must be 1 to 8000"},
      {"/size", "2.5", "size must be an integer, is number"},
      {"/size", "\"big\"", "size must be an object, is string"},
      {"/size", R"({"height": 3})", "size.width is missing"},
      {"/size", R"({"height": 3, "width": 8001})", "size.width is 8001, must be 1 to 8000"},
      {"/size", R"({"longest_edge": 3})", "size.longest_edge is not supported here; height and width are"},
      {"/size", R"({"shortest_edge": 3, "longest_edge": 9})",
       "size.longest_edge is not supported beside shortest_edge"},
      {"/do_center_crop", "true", "do_center_crop is true, but there is no crop_size"},
      {"",
       R"({"image_processor_type": "ViTImageProcessor", "do_center_crop": true, "crop_size": {"shortest_edge": 3}})",
       "crop_size.shortest_edge is not supported here; height and width are"},
      {"/rescale_factor", "0", "rescale_factor is 0, must be 9.5367431640625e-07 to 1048576"},
      {"/image_mean", "[0.5, 0.5]", "image_mean has 2 numbers, must have 3"},
      {"/image_mean", "[0.5, 0.5, 1e7]", "image_mean[2] is 10000000, must be -1048576 to 1048576"},
      {"/image_std", "[0.5, 0, 0.5]", "image_std[1] is 0, must be 9.5367431640625e-07 to 1048576"},
      {"/image_std", "\"x\"", "image_std must be a number, is string"},
      {"/image_processor_type", "\"CLIPImageProcessor\"",
       "image_processor_type must be \"ViTImageProcessor\" or \"BitImageProcessor\", is \"CLIPImageProcessor\""},
      {"", "{}", "feature_extractor_type is missing"},
      {"", "[]", "the document must be an object, is array"}};
  for (const auto& [place, value, expected] : edits) {
    const json config = json::parse(test::edited(vit, place, value));
    const std::string message = test::message_of<FormatError>([&] { config_in(config); });
    EXPECT_EQ(message.substr(message.rfind("//") + 2), "preprocessor_config.json: " + expected);
  }
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
      test::message_of<std::invalid_argument>([&] { shortest.process(Tensor::zeros({1, 4000, 3}, Dtype::u8)); }),
      "ImageProcessor: 4000 x 1 pixels would become 1200000 x 300; at most 64000000 in all and 1000000 along an edge "
      "are possible");
}

}  // namespace
}  // namespace qkv
