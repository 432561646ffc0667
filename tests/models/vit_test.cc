// Vision Transformers against transformers (golden/vit, made by make.py there), their gradients, and their folders;
// pictures prepared for them, as transformers prepares them (golden/image_processor).
#include "qkv/models/vit.h"

#include <fmt/ranges.h>

#include "jacobian.h"
#include "models/models_for_test.h"
#include "qkv/models/image_processor.h"
#include "qkv/pictures.h"

namespace qkv::test {
namespace {

using testing::same_bits;

class VitGolden : public ::testing::TestWithParam<const char*> {
 protected:
  const std::string folder_ = golden_path(std::string("vit/") + GetParam());
  const std::map<std::string, Tensor> golden_ = read_safetensors(folder_ + ".safetensors").tensors;
  const Vit model_ = Vit::load(folder_);
};

TEST_P(VitGolden, AgreesWithTransformers) {
  for (int n = 0; golden_.contains("pictures_" + std::to_string(n)); ++n) {
    const std::string i = std::to_string(n);
    SCOPED_TRACE("pictures " + i);
    const Tensor& pictures = golden_.at("pictures_" + i);
    expect_as_close(model_.forward(pictures), golden_.at("hidden_" + i), golden_.at("hidden_f64_" + i), 1e-6);
    EXPECT_EQ(golden_.contains("logits_" + i), !model_.config().labels.empty());
    if (model_.config().labels.empty()) continue;
    expect_as_close(model_.logits(pictures), golden_.at("logits_" + i), golden_.at("logits_f64_" + i), 1e-6);
  }
}

TEST_P(VitGolden, WhatIsSavedOpensAsTheSame) {
  TemporaryFolder saved;
  model_.save(saved / "");
  EXPECT_TRUE(Vit::is_in(saved / ""));
  EXPECT_EQ(Vit::check(saved / ""), model_.config());
  const Tensor& pictures = golden_.at("pictures_0");
  EXPECT_TRUE(same_bits(Vit::load(saved / "").forward(pictures), model_.forward(pictures)));
  // And by transformers' names: those that the model came with, all of the same bits.
  const auto before = read_safetensors(folder_ + "/model.safetensors").tensors;
  for (const auto& [name, tensor] : read_safetensors(saved / "model.safetensors").tensors) {
    ASSERT_TRUE(before.contains(name)) << name;
    EXPECT_TRUE(same_bits(tensor, before.at(name))) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, VitGolden,
                         ::testing::Values("vit", "vit_gray", "vit_bare", "dinov2", "dinov2_bare", "dinov2_relu"),
                         [](const auto& one) { return std::string(one.param); });

// A trained model of 12 layers, and the way from a file to its input (golden/vit/dino.py).
TEST(VitSlow, AgreesWithOnnxRuntimeOnPhotographs) {
  const char *folder = std::getenv("QKV_DINO"), *photographs = std::getenv("QKV_DINO_PICTURES"),
             *expected = std::getenv("QKV_DINO_EXPECTED");
  if (!folder || !photographs || !expected) GTEST_SKIP() << "tests/dino_parity sets QKV_DINO, _PICTURES and _EXPECTED";
  const Vit model = Vit::load(folder);
  const ImageProcessor processor = ImageProcessor::load(folder);
  const auto golden = read_safetensors(expected).tensors;
  for (const std::string name : {"china", "flower", "random"}) {
    const Tensor& pixels = golden.at(name + ".pixels");
    if (name != "random") {
      const Tensor own = processor.process(read_picture(photographs + ("/" + name + ".jpg")));
      EXPECT_TRUE(same_bits(own, pixels.view().select(0, 0))) << name;
    }
    const Tensor hidden = model.forward(pixels);
    const TensorView theirs = golden.at(name + ".hidden");
    ASSERT_EQ(hidden.shape(), theirs.shape());
    // Sums of hundreds of products, 12 layers deep, in float32 on both sides.
    EXPECT_LE(testing::difference(hidden, theirs), 1e-4 * testing::largest(theirs)) << name;
  }
}

TEST(Vit, APictureIsAsAloneOnAnyNumberOfThreads) {
  const Vit model = Vit::load(golden_path("vit/dinov2"));
  Random random(1);
  Tensor pictures = testing::normal(random, {5, 30, 22, 3}, Dtype::f32);
  pictures.view().at<float>({1, 2, 3, 0}) = std::numeric_limits<float>::quiet_NaN();  // stays in its picture
  const Tensor out = model.logits(pictures, {.threads = 1});
  EXPECT_TRUE(same_bits(model.logits(pictures, {.threads = 3}), out));
  for (std::int64_t b = 0; b < 5; ++b) {
    EXPECT_TRUE(same_bits(model.logits(pictures.view().slice(0, b, b + 1)), out.view().slice(0, b, b + 1)));
    EXPECT_EQ(std::isnan(out.view().at<float>({b, 0})), b == 1);
  }
  // Channels first in memory.
  const Tensor planes = testing::normal(random, {2, 3, 21, 21}, Dtype::f32);
  const TensorView strided = planes.view().transpose(1, 2).transpose(2, 3);
  EXPECT_TRUE(same_bits(model.logits(strided), model.logits(Tensor::copy(strided))));
}

VitConfig small_vit(VitKind kind) {
  return {.kind = kind,
          .picture = {6, 4},
          .patch = {3, 2},
          .channels = 2,
          .model_dim = 4,
          .layers = 2,
          .heads = 2,
          .ff_dim = 8,
          .activation = Activation::gelu,
          .epsilon = 1e-3,
          .labels = {"a", "b", "c"}};
}

TEST(Vit, GradientsAreThoseOfTheLoss) {
  for (const auto& [kind, height, width] : {std::tuple(VitKind::vit, 6, 4),
                                            {VitKind::dinov2, 6, 4},
                                            {VitKind::vit, 10, 7},       // interpolated
                                            {VitKind::dinov2, 3, 3}}) {  // one patch
    SCOPED_TRACE(height);
    Random random(3);
    // Every parameter drawn, so that none is a constant that hides a fault.
    const auto draw = [&](const std::string&, const Dims& shape) { return testing::normal(random, shape, Dtype::f64); };
    Weights weights(draw, Dtype::f64);
    Vit model(small_vit(kind), weights);
    const LabelledPictures batch{draw("", {3, height, width, 2}), {2, 0, 2}};
    testing::want_gradients(model);
    const LossSum sum = model.backward(batch, {});
    EXPECT_EQ(sum.count, 3);
    EXPECT_NEAR(sum.sum, model.loss(batch).sum, 1e-12 * std::abs(sum.sum));
    testing::expect_parameter_gradients(model, [&] { return model.loss(batch).sum; }, 1e-6);
  }
}

// By hand: the logits are the biases alone, 0, log 3 and 0.
TEST(Vit, TheMetricCountsTheLargestLogit) {
  const auto biases = [](const std::string& name, const Dims& shape) {
    Tensor zeros = Tensor::zeros(shape, Dtype::f64);
    if (name == "classifier.bias") zeros.data<double>()[1] = std::log(3.0);
    return zeros;
  };
  Weights weights(biases, Dtype::f64);
  const Vit model(small_vit(VitKind::vit), weights);
  const LossSum sum = model.loss({Tensor::zeros({4, 6, 4, 2}, Dtype::f64), {1, 0, 1, 1}});
  EXPECT_EQ(sum.metric, 3.0);
  EXPECT_NEAR(sum.nll, 3 * std::log(5.0 / 3) + std::log(5.0), 1e-12);
}

TEST(Vit, RefusesWhatDoesNotFit) {
  const Vit model = Vit::load(golden_path("vit/vit")), bare = Vit::load(golden_path("vit/vit_bare"));
  const auto pictures = [](const Dims& shape, Dtype dtype = Dtype::f32) { return Tensor::zeros(shape, dtype); };
  const std::pair<std::function<void()>, std::string> refusals[] = {
      {[&] { model.forward(pictures({1, 3, 12, 3})); },
       "patch_embedding: a picture of 3 x 12 pixels (height x width) is smaller than a patch of 4 x 4"},
      {[&] { model.forward(pictures({1, 12, 12, 1})); },
       "patch_embedding: pictures are f32 [1, 12, 12, 1]; they must be f32 [batch, height, width, 3]"},
      {[&] { model.forward(pictures({1, 12, 12, 3}, Dtype::u8)); },
       "patch_embedding: pictures are u8 [1, 12, 12, 3]; they must be f32 [batch, height, width, 3]"},
      {[&] { bare.logits(pictures({1, 16, 16, 3})); }, "vit: the model has no classifier"},
      {[&] { model.loss({pictures({2, 12, 12, 3}), {0}}); }, "vit: 1 labels for pictures [2, 12, 12, 3]"},
      {[&] { model.loss({pictures({1, 12, 12, 3}), {5}}); }, "vit: label 5 is not one of 5 classes"}};
  for (const auto& [call, message] : refusals) EXPECT_EQ(message_of<std::invalid_argument>(call), message);
  EXPECT_EQ(model.forward(pictures({0, 12, 12, 3})).shape(), (Dims{0, 10, 12}));
}

TEST(Vit, RefusesConfigsByKey) {
  expect_configs_refused<Vit>("vit/vit", R"(
/qkv_bias = false => qkv_bias must be true for this model
/patch_size = 13 => patch_size must not be larger than image_size
/patch_size = [4, 4, 4] => patch_size must be one number, or height and width
/id2label/0 => id2label has 4 names, but none for 0
/model_type = "bert" => model_type is "bert"; the supported Vision Transformers are "vit" and "dinov2"
/hidden_size = 15 => model.safetensors: tensor "vit.embeddings.patch_embeddings.projection.weight" is [12, 3, 4, 4];
    it must be [15, 3, 4, 4]
)");
  expect_configs_refused<Vit>("vit/dinov2", R"(
/use_swiglu_ffn = true => use_swiglu_ffn must be false for this model
/mlp_ratio = 0.01 => mlp_ratio is out of range
)");
}

// What is read in a folder with this preprocessor_config.json.
ImageProcessorConfig config_in(const std::string& config) {
  const TemporaryFolder folder;
  folder.put("preprocessor_config.json", config);
  return ImageProcessor::read_config(folder / "");
}

Tensor random_picture(std::int64_t height, std::int64_t width) {
  Random random(1);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(height * width * 3));
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.below(256));
  return Tensor::of({height, width, 3}, bytes);
}

TEST(ImageProcessor, MakesWhatTransformersMakes) {
  const auto tensors = golden_tensors("image_processor/cases.safetensors");
  const auto cases = nlohmann::json::parse(slurp(golden_path("image_processor/cases.json")));
  EXPECT_GE(cases.size(), 30u);
  for (const auto& [name, config] : cases.items()) {
    SCOPED_TRACE(name);
    const ImageProcessor processor(config_in(config.dump()));
    expect_equal(processor.process(tensors.at(name + ".picture")), tensors.at(name));
  }
}

TEST(ImageProcessor, AnyStridesAndThreads) {
  const ImageProcessor processor({.resize = ImageProcessorConfig::Resize{.size = {.height = 37, .width = 50}}});
  const Tensor picture = random_picture(101, 83);
  const Tensor expected = processor.process(picture, 1);
  for (const int threads : {2, 3, 8}) expect_equal(processor.process(picture, threads), expected);
  const Tensor turned = Tensor::copy(picture.view().transpose(0, 1));
  expect_equal(processor.process(turned.view().transpose(0, 1)), expected);
  const Tensor row = random_picture(1, 1);
  const TensorView repeated = row.view().broadcast_to({9, 4, 3});
  expect_equal(processor.process(repeated), processor.process(Tensor::copy(repeated)));
}

TEST(ImageProcessor, NumbersByHand) {
  const Tensor picture = Tensor::of<std::uint8_t>({1, 2, 3}, {0, 51, 255, 102, 204, 153});
  const ImageProcessor plain({.resize = {}, .rescale_factor = {}, .normalize = {}});
  EXPECT_EQ(values_of(plain.process(picture)), values_of(picture));
  const ImageProcessor normal({.resize = {}, .rescale_factor = 0.5, .normalize = {{{1, 2, 3}, {2, 4, 0.5f}}}});
  EXPECT_EQ(values_of(normal.process(picture)), (std::vector<double>{-0.5, 5.875, 249, 25, 25, 147}));
  // A crop around it: transformers puts the odd column of zeros in front.
  const ImageProcessor framed({.resize = {}, .center_crop = {{2, 3}}, .rescale_factor = {}, .normalize = {}});
  EXPECT_EQ(values_of(framed.process(picture)),
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
    const ImageProcessorConfig config = config_in(file);
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
  const auto refusal = [](const std::string& config) {
    const std::string message = message_of<FormatError>([&] { config_in(config); });
    return message.substr(message.rfind("//") + 2);
  };
  expect_edits_refused({{"image_processor_type", "ViTImageProcessor"}}, R"(
/do_flip = true => do_flip is unknown: it may change the numbers
/do_pad = true => do_pad must be false
/pad_size = 3 => pad_size must be null
/resample = 1 => resample is 1; 2 (bilinear) and 3 (bicubic) are supported
/resample = 9 => resample is 9, must be 0 to 5
/do_resize = 1 => do_resize must be true or false, is number
/size = 0 => size is 0, must be 1 to 8000
/size = 2.5 => size must be an integer, is 2.5
/size = "big" => size must be an object, is string
/size = {"height": 3} => size.width is missing
/size = {"height": 3, "width": 8001} => size.width is 8001, must be 1 to 8000
/size = {"longest_edge": 3} => size.longest_edge is not supported here; height and width are
/size = {"shortest_edge": 3, "longest_edge": 9} => size.longest_edge is not supported with shortest_edge
/do_center_crop = true => do_center_crop is true, but there is no crop_size
. = {"image_processor_type": "ViTImageProcessor", "do_center_crop": true, "crop_size": {"shortest_edge": 3}}
    => crop_size.shortest_edge is not supported here; height and width are
/rescale_factor = 0 => rescale_factor is 0, must be 9.5367431640625e-07 to 1048576
/image_mean = [0.5, 0.5] => image_mean has 2 numbers, must have 3
/image_mean = [0.5, 0.5, 1e7] => image_mean[2] is 10000000, must be -1048576 to 1048576
/image_std = [0.5, 0, 0.5] => image_std[1] is 0, must be 9.5367431640625e-07 to 1048576
/image_std = "x" => image_std must be a number, is string
/image_processor_type = "CLIPImageProcessor"
    => image_processor_type must be "ViTImageProcessor" or "BitImageProcessor", is "CLIPImageProcessor"
. = {} => feature_extractor_type is missing
. = [] => the document must be an object, is array
)",
                       "preprocessor_config.json: ", refusal);
}

TEST(ImageProcessor, RefusesWhatCannotBe) {
  const ImageProcessorConfig configs[] = {{.resize = {{.size = {0, 1}}}},
                                          {.resize = {{.size = {1, 8001}}}},
                                          {.resize = {{.shortest_edge = -1}}},
                                          {.center_crop = {{1, 0}}},
                                          {.rescale_factor = 0.0},
                                          {.rescale_factor = NAN},
                                          {.normalize = {{.mean = {0, INFINITY, 0}}}},
                                          {.normalize = {{.deviation = {1, 1, 0}}}}};
  for (const ImageProcessorConfig& config : configs) EXPECT_THROW(ImageProcessor{config}, std::invalid_argument);
  const ImageProcessor processor(ImageProcessorConfig{}), shortest({.resize = {{.shortest_edge = 300}}});
  EXPECT_THROW(processor.process(Tensor::zeros({4, 4, 3})), std::invalid_argument);
  for (const Dims& shape : {Dims{4, 4}, Dims{4, 4, 4}, Dims{0, 4, 3}, Dims{1, 4, 4, 3}}) {
    EXPECT_THROW(processor.process(Tensor::zeros(shape, Dtype::u8)), std::invalid_argument);
  }
  EXPECT_EQ(
      message_of<std::invalid_argument>([&] { shortest.process(Tensor::zeros({1, 4000, 3}, Dtype::u8)); }),
      "ImageProcessor: 4000 x 1 pixels would become 1200000 x 300; at most 64000000 in all and 1000000 along an edge "
      "are possible");
}

}  // namespace
}  // namespace qkv::test
