// Vision Transformers against transformers (golden/vit, made by make.py there), their gradients, and their folders.
#include "qkv/models/vit.h"

#include <cstdio>
#include <cstdlib>

#include "attention/attention_testing.h"
#include "io/files_for_test.h"
#include "jacobian.h"
#include "qkv/files.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/models/image_processor.h"
#include "qkv/pictures.h"

namespace qkv {
namespace {

const std::string kGolden = QKV_TEST_DATA "/golden/vit/";

class VitGolden : public ::testing::TestWithParam<const char*> {
 protected:
  std::string folder() const { return kGolden + GetParam(); }
  std::map<std::string, Tensor> tensors() const { return read_safetensors(folder() + ".safetensors").tensors; }
};

// At most twice as far as torch's own float32, above a floor of a few roundings.
void expect_near(const Tensor& out, const std::map<std::string, Tensor>& golden, const std::string& name,
                 const std::string& i) {
  const TensorView exact = golden.at(name + "_f64_" + i);
  ASSERT_EQ(out.shape(), exact.shape());
  EXPECT_LE(testing::difference(out, exact),
            2 * testing::difference(golden.at(name + "_" + i), exact) + 1e-6 * testing::largest(exact))
      << name << " of picture size " << i;
}

TEST_P(VitGolden, AgreesWithTransformers) {
  const Vit model = Vit::load(folder());
  const auto golden = tensors();
  for (int n = 0; golden.contains("pictures_" + std::to_string(n)); ++n) {
    const std::string i = std::to_string(n);
    const Tensor& pictures = golden.at("pictures_" + i);
    expect_near(model.forward(pictures), golden, "hidden", i);
    EXPECT_EQ(golden.contains("logits_" + i), !model.config().labels.empty());
    if (!model.config().labels.empty()) expect_near(model.logits(pictures), golden, "logits", i);
  }
}

TEST_P(VitGolden, WhatIsSavedOpensAsTheSame) {
  const Vit model = Vit::load(folder());
  test::TemporaryFolder saved;
  model.save(saved / "");
  EXPECT_TRUE(Vit::is_in(saved / ""));
  EXPECT_EQ(Vit::check(saved / ""), model.config());
  const Tensor pictures = tensors().at("pictures_0");
  EXPECT_TRUE(testing::same_bits(Vit::load(saved / "").forward(pictures), model.forward(pictures)));
  // And by transformers' names: those that the model came with, all of the same bits.
  const auto before = read_safetensors(folder() + "/model.safetensors").tensors;
  const auto after = read_safetensors(saved / "model.safetensors").tensors;
  for (const auto& [name, tensor] : after) {
    ASSERT_TRUE(before.contains(name)) << name;
    EXPECT_TRUE(testing::same_bits(tensor, before.at(name))) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, VitGolden,
                         ::testing::Values("vit", "vit_gray", "vit_bare", "dinov2", "dinov2_bare", "dinov2_relu"),
                         [](const auto& one) { return std::string(one.param); });

// A trained model of 12 layers, and the way from a file to its input (golden/vit/dino.py).
TEST(VitSlow, AgreesWithOnnxRuntimeOnPhotographs) {
  const char* folder = std::getenv("QKV_DINO");
  const char* photographs = std::getenv("QKV_DINO_PICTURES");
  const char* expected = std::getenv("QKV_DINO_EXPECTED");
  if (folder == nullptr || photographs == nullptr || expected == nullptr) {
    GTEST_SKIP() << "tests/dino_parity sets QKV_DINO, QKV_DINO_PICTURES and QKV_DINO_EXPECTED";
  }
  const Vit model = Vit::load(folder);
  const ImageProcessor processor = ImageProcessor::load(folder);
  const auto golden = read_safetensors(expected).tensors;
  for (const std::string name : {"china", "flower"}) {
    const Tensor pixels = processor.process(read_picture(photographs + ("/" + name + ".jpg")));
    EXPECT_TRUE(testing::same_bits(pixels, golden.at(name + ".pixels").view().select(0, 0))) << name;
  }
  for (const std::string name : {"china", "flower", "random"}) {
    const Tensor hidden = model.forward(golden.at(name + ".pixels"));
    const TensorView theirs = golden.at(name + ".hidden");
    ASSERT_EQ(hidden.shape(), theirs.shape());
    const double difference = testing::difference(hidden, theirs) / testing::largest(theirs);
    // Sums of hundreds of products, 12 layers deep, in float32 on both sides.
    EXPECT_LE(difference, 1e-4) << name;
    std::printf("%s: %.1e of the largest\n", name.c_str(), difference);
  }
}

TEST(Vit, APictureIsAsAloneOnAnyNumberOfThreads) {
  const Vit model = Vit::load(kGolden + "dinov2");
  Random random(1);
  const Tensor pictures = testing::normal(random, {5, 30, 22, 3}, Dtype::f32);
  const Tensor out = model.logits(pictures, {.threads = 1});
  EXPECT_TRUE(testing::same_bits(model.logits(pictures, {.threads = 3}), out));
  for (std::int64_t b = 0; b < 5; ++b) {
    EXPECT_TRUE(testing::same_bits(model.logits(pictures.view().slice(0, b, b + 1)), out.view().slice(0, b, b + 1)));
  }
  // Channels first in memory.
  const Tensor planes = testing::normal(random, {2, 3, 21, 21}, Dtype::f32);
  const TensorView strided = planes.view().transpose(1, 2).transpose(2, 3);
  EXPECT_TRUE(testing::same_bits(model.logits(strided), model.logits(Tensor::copy(strided))));
}

TEST(Vit, ANaNStaysInItsPicture) {
  const Vit model = Vit::load(kGolden + "vit");
  Random random(2);
  Tensor pictures = testing::normal(random, {3, 12, 12, 3}, Dtype::f32);
  const Tensor clean = model.logits(pictures);
  pictures.data<float>()[12 * 12 * 3 + 7] = std::numeric_limits<float>::quiet_NaN();
  const Tensor out = model.logits(pictures);
  EXPECT_TRUE(testing::same_bits(out.view().slice(0, 0, 1), clean.view().slice(0, 0, 1)));
  EXPECT_TRUE(testing::same_bits(out.view().slice(0, 2, 3), clean.view().slice(0, 2, 3)));
  EXPECT_TRUE(std::isnan(out.data<float>()[5]));
}

struct GradientCase {
  const char* name;
  VitKind kind;
  PictureSize pixels;
};

class VitGradients : public ::testing::TestWithParam<GradientCase> {};

TEST_P(VitGradients, AreThoseOfTheLoss) {
  const VitConfig config{.kind = GetParam().kind,
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
  Random random(3);
  // Every parameter drawn, so that none is a constant that hides a fault.
  Weights weights([&](const std::string&, const Dims& shape) { return testing::normal(random, shape, Dtype::f64); },
                  Dtype::f64);
  Vit model(config, weights);
  const LabelledPictures batch{
      testing::normal(random, {3, GetParam().pixels.height, GetParam().pixels.width, 2}, Dtype::f64), {2, 0, 2}};
  testing::want_gradients(model);
  const LossSum sum = model.backward(batch, {});
  EXPECT_EQ(sum.count, 3);
  EXPECT_NEAR(sum.sum, model.loss(batch).sum, 1e-12 * std::abs(sum.sum));
  testing::expect_parameter_gradients(model, [&] { return model.loss(batch).sum; }, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Kinds, VitGradients,
                         ::testing::Values(GradientCase{"vit", VitKind::vit, {6, 4}},
                                           GradientCase{"dinov2", VitKind::dinov2, {6, 4}},
                                           GradientCase{"vit_interpolated", VitKind::vit, {10, 7}},
                                           GradientCase{"dinov2_one_patch", VitKind::dinov2, {3, 3}}),
                         [](const auto& one) { return std::string(one.param.name); });

// By hand: two classes whose logits are the biases alone.
TEST(Vit, TheMetricCountsTheLargestLogit) {
  Weights weights(
      [](const std::string& name, const Dims& shape) {
        Tensor zeros = Tensor::zeros(shape, Dtype::f64);
        if (name == "classifier.bias") zeros.data<double>()[1] = std::log(3.0);
        return zeros;
      },
      Dtype::f64);
  const Vit model({.picture = {2, 2},
                   .patch = {1, 1},
                   .channels = 1,
                   .model_dim = 2,
                   .layers = 1,
                   .heads = 1,
                   .ff_dim = 2,
                   .labels = {"no", "yes"}},
                  weights);
  const LossSum sum = model.loss({Tensor::zeros({4, 2, 2, 1}, Dtype::f64), {1, 0, 1, 1}});
  EXPECT_EQ(sum.metric, 3.0);
  EXPECT_NEAR(sum.nll, 3 * std::log(4.0 / 3) + std::log(4.0), 1e-12);
}

TEST(Vit, RefusesWhatDoesNotFit) {
  const Vit model = Vit::load(kGolden + "vit"), bare = Vit::load(kGolden + "vit_bare");
  const auto refusal = [](const auto& call) { return test::message_of<std::invalid_argument>(call); };
  EXPECT_EQ(refusal([&] { model.forward(Tensor::zeros({1, 3, 12, 3})); }),
            "patch_embedding: a picture of 3 x 12 pixels (height x width) is smaller than a patch of 4 x 4");
  EXPECT_EQ(refusal([&] { model.forward(Tensor::zeros({1, 12, 12, 1})); }),
            "patch_embedding: pictures are f32 [1, 12, 12, 1]; they must be f32 [batch, height, width, 3]");
  EXPECT_EQ(refusal([&] { model.forward(Tensor::zeros({1, 12, 12, 3}, Dtype::u8)); }),
            "patch_embedding: pictures are u8 [1, 12, 12, 3]; they must be f32 [batch, height, width, 3]");
  EXPECT_EQ(refusal([&] { bare.logits(Tensor::zeros({1, 16, 16, 3})); }), "vit: the model has no classifier");
  EXPECT_EQ(refusal([&] { model.loss({Tensor::zeros({2, 12, 12, 3}), {0}}); }),
            "vit: 1 labels for pictures [2, 12, 12, 3]");
  EXPECT_EQ(refusal([&] { model.loss({Tensor::zeros({1, 12, 12, 3}), {5}}); }), "vit: label 5 is not one of 5 classes");
  EXPECT_EQ(model.forward(Tensor::zeros({0, 12, 12, 3})).shape(), (Dims{0, 10, 12}));
}

// config.json of a copy of a folder, with one part of the text replaced.
std::string refusal_of_config(const std::string& name, const std::string& part, const std::string& replacement) {
  std::string config = test::slurp(kGolden + name + "/config.json");
  const std::size_t at = config.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  config.replace(at, part.size(), replacement);
  test::TemporaryFolder folder;
  folder.put("config.json", config);
  write_safetensors(folder / "model.safetensors", read_safetensors(kGolden + name + "/model.safetensors"));
  const std::string message = test::message_of<FormatError>([&] { Vit::load(folder / ""); });
  const std::size_t file = message.find("config.json: ");
  return file == std::string::npos ? message : message.substr(file + 13);
}

TEST(Vit, RefusesConfigsByKey) {
  EXPECT_EQ(refusal_of_config("vit", "\"qkv_bias\": true", "\"qkv_bias\": false"),
            "qkv_bias must be true for this model");
  EXPECT_EQ(refusal_of_config("dinov2", "\"use_swiglu_ffn\": false", "\"use_swiglu_ffn\": true"),
            "use_swiglu_ffn must be false for this model");
  EXPECT_EQ(refusal_of_config("vit", "\"patch_size\": 4", "\"patch_size\": 13"),
            "patch_size must not be larger than image_size");
  EXPECT_EQ(refusal_of_config("vit", "\"patch_size\": 4", "\"patch_size\": [4, 4, 4]"),
            "patch_size must be one number, or height and width");
  EXPECT_EQ(refusal_of_config("vit", "\"0\": \"LABEL_0\"", "\"7\": \"LABEL_0\""),
            "id2label has 5 names, but none for 0");
  EXPECT_EQ(refusal_of_config("dinov2", "\"mlp_ratio\": 2", "\"mlp_ratio\": 0.01"), "mlp_ratio is out of range");
  EXPECT_EQ(refusal_of_config("vit", "\"model_type\": \"vit\"", "\"model_type\": \"bert\""),
            "model_type is \"bert\"; the supported Vision Transformers are \"vit\" and \"dinov2\"");
  EXPECT_NE(refusal_of_config("vit", "\"hidden_size\": 12", "\"hidden_size\": 15").find("model.safetensors"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv
