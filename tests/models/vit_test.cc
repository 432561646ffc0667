// Vision Transformers against transformers (golden/vit, made by make.py there), their gradients, and their folders.
#include "qkv/models/vit.h"

#include <cstdio>
#include <cstdlib>

#include "jacobian.h"
#include "models/models_for_test.h"
#include "qkv/models/image_processor.h"
#include "qkv/pictures.h"

namespace qkv {
namespace {

using testing::same_bits;

class VitGolden : public ::testing::TestWithParam<const char*> {
 protected:
  const std::string folder_ = test::golden_path(std::string("vit/") + GetParam());
  const std::map<std::string, Tensor> golden_ = read_safetensors(folder_ + ".safetensors").tensors;
  const Vit model_ = Vit::load(folder_);
};

TEST_P(VitGolden, AgreesWithTransformers) {
  for (int n = 0; golden_.contains("pictures_" + std::to_string(n)); ++n) {
    const std::string i = std::to_string(n);
    SCOPED_TRACE("pictures " + i);
    const Tensor& pictures = golden_.at("pictures_" + i);
    test::expect_as_close(model_.forward(pictures), golden_.at("hidden_" + i), golden_.at("hidden_f64_" + i), 1e-6);
    EXPECT_EQ(golden_.contains("logits_" + i), !model_.config().labels.empty());
    if (model_.config().labels.empty()) continue;
    test::expect_as_close(model_.logits(pictures), golden_.at("logits_" + i), golden_.at("logits_f64_" + i), 1e-6);
  }
}

TEST_P(VitGolden, WhatIsSavedOpensAsTheSame) {
  test::TemporaryFolder saved;
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
    EXPECT_TRUE(same_bits(pixels, golden.at(name + ".pixels").view().select(0, 0))) << name;
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
  const Vit model = Vit::load(test::golden_path("vit/dinov2"));
  Random random(1);
  const Tensor pictures = testing::normal(random, {5, 30, 22, 3}, Dtype::f32);
  const Tensor out = model.logits(pictures, {.threads = 1});
  EXPECT_TRUE(same_bits(model.logits(pictures, {.threads = 3}), out));
  for (std::int64_t b = 0; b < 5; ++b) {
    EXPECT_TRUE(same_bits(model.logits(pictures.view().slice(0, b, b + 1)), out.view().slice(0, b, b + 1)));
  }
  // Channels first in memory.
  const Tensor planes = testing::normal(random, {2, 3, 21, 21}, Dtype::f32);
  const TensorView strided = planes.view().transpose(1, 2).transpose(2, 3);
  EXPECT_TRUE(same_bits(model.logits(strided), model.logits(Tensor::copy(strided))));
}

TEST(Vit, ANaNStaysInItsPicture) {
  const Vit model = Vit::load(test::golden_path("vit/vit"));
  Random random(2);
  Tensor pictures = testing::normal(random, {3, 12, 12, 3}, Dtype::f32);
  const Tensor clean = model.logits(pictures);
  pictures.data<float>()[12 * 12 * 3 + 7] = std::numeric_limits<float>::quiet_NaN();
  const Tensor out = model.logits(pictures);
  EXPECT_TRUE(same_bits(out.view().slice(0, 0, 1), clean.view().slice(0, 0, 1)));
  EXPECT_TRUE(same_bits(out.view().slice(0, 2, 3), clean.view().slice(0, 2, 3)));
  EXPECT_TRUE(std::isnan(out.data<float>()[5]));
}

TEST(Vit, GradientsAreThoseOfTheLoss) {
  struct Case {
    VitKind kind;
    PictureSize pixels;
  };
  for (const Case& one : {Case{VitKind::vit, {6, 4}},
                          {VitKind::dinov2, {6, 4}},
                          {VitKind::vit, {10, 7}},       // interpolated
                          {VitKind::dinov2, {3, 3}}}) {  // one patch
    SCOPED_TRACE(one.pixels.height);
    Random random(3);
    // Every parameter drawn, so that none is a constant that hides a fault.
    Weights weights([&](const std::string&, const Dims& shape) { return testing::normal(random, shape, Dtype::f64); },
                    Dtype::f64);
    Vit model({.kind = one.kind,
               .picture = {6, 4},
               .patch = {3, 2},
               .channels = 2,
               .model_dim = 4,
               .layers = 2,
               .heads = 2,
               .ff_dim = 8,
               .activation = Activation::gelu,
               .epsilon = 1e-3,
               .labels = {"a", "b", "c"}},
              weights);
    const LabelledPictures batch{testing::normal(random, {3, one.pixels.height, one.pixels.width, 2}, Dtype::f64),
                                 {2, 0, 2}};
    testing::want_gradients(model);
    const LossSum sum = model.backward(batch, {});
    EXPECT_EQ(sum.count, 3);
    EXPECT_NEAR(sum.sum, model.loss(batch).sum, 1e-12 * std::abs(sum.sum));
    testing::expect_parameter_gradients(model, [&] { return model.loss(batch).sum; }, 1e-6);
  }
}

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
  const Vit model = Vit::load(test::golden_path("vit/vit")), bare = Vit::load(test::golden_path("vit/vit_bare"));
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
  for (const auto& [call, message] : refusals) EXPECT_EQ(test::message_of<std::invalid_argument>(call), message);
  EXPECT_EQ(model.forward(pictures({0, 12, 12, 3})).shape(), (Dims{0, 10, 12}));
}

TEST(Vit, RefusesConfigsByKey) {
  test::expect_configs_refused<Vit>(
      "vit/vit",
      {{"/qkv_bias", "false", "qkv_bias must be true for this model"},
       {"/patch_size", "13", "patch_size must not be larger than image_size"},
       {"/patch_size", "[4, 4, 4]", "patch_size must be one number, or height and width"},
       {"/id2label/0", "", "id2label has 4 names, but none for 0"},
       {"/model_type", "\"bert\"",
        "model_type is \"bert\"; the supported Vision Transformers are \"vit\" and \"dinov2\""},
       {"/hidden_size", "15",
        "model.safetensors: tensor \"vit.embeddings.patch_embeddings.projection.weight\" is [12, 3, 4, 4]; it must be "
        "[15, 3, 4, 4]"}});
  test::expect_configs_refused<Vit>("vit/dinov2",
                                    {{"/use_swiglu_ffn", "true", "use_swiglu_ffn must be false for this model"},
                                     {"/mlp_ratio", "0.01", "mlp_ratio is out of range"}});
}

}  // namespace
}  // namespace qkv
