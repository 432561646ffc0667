// Where a Vision Transformer looks: weights and rollout against loops over what an observer saw, and their drawings.
#include "qkv/explain/picture_attention.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "attention/attention_testing.h"
#include "io/files_for_test.h"

namespace qkv {
namespace {

class PictureAttentionTest : public ::testing::Test {
 protected:
  // 4 x 3 patches of 7 x 7 pixels, and some pixels beside them that no patch has.
  PictureAttentionTest() {
    Random random(5);
    pixels_ = testing::normal(random, {30, 24, 3}, Dtype::f32);
  }

  const Vit model_ = Vit::load(QKV_TEST_DATA "/golden/vit/dinov2");
  Tensor pixels_;
};

struct SeenWeights : Observer {
  void receive(std::string_view name, const TensorView& value) override {
    if (name.ends_with(".weights")) layers.push_back(convert(value, Dtype::f64));
  }
  std::vector<Tensor> layers;  // [tokens, heads, tokens]
};

TEST_F(PictureAttentionTest, TokensAreTheClassAndThePatches) {
  const EncodedPicture picture(model_, pixels_);
  EXPECT_EQ(picture.grid(), (PictureSize{4, 3}));
  const std::vector<std::string>& tokens = picture.attentions().sequences.front().tokens;
  ASSERT_EQ(tokens.size(), 13u);
  EXPECT_EQ(tokens[0], "class");
  EXPECT_EQ(tokens[1], "0,0");
  EXPECT_EQ(tokens[6], "1,2");
  EXPECT_EQ(tokens[12], "3,2");
}

TEST_F(PictureAttentionTest, RolloutIsTheProductOverTheLayers) {
  const EncodedPicture picture(model_, pixels_);
  SeenWeights seen;
  picture.run(seen);
  ASSERT_EQ(seen.layers.size(), 2u);
  constexpr int kTokens = 13, kHeads = 3;
  // (A2 + I) / 2 times (A1 + I) / 2, whole matrices.
  std::vector<std::vector<double>> product(kTokens, std::vector<double>(kTokens));
  for (int i = 0; i < kTokens; ++i) product[i][i] = 1;
  for (const Tensor& layer : seen.layers) {
    std::vector<std::vector<double>> next(kTokens, std::vector<double>(kTokens));
    for (int i = 0; i < kTokens; ++i) {
      for (int k = 0; k < kTokens; ++k) {
        double mean = i == k ? kHeads : 0;
        for (int h = 0; h < kHeads; ++h) mean += layer.view().at<double>({i, h, k});
        for (int j = 0; j < kTokens; ++j) next[i][j] += mean / (2 * kHeads) * product[k][j];
      }
    }
    product = next;
  }
  for (const auto& [name, token] : {std::pair("class", 0), std::pair("2,1", 8), std::pair("12", 12)}) {
    const PictureAttention found = survey_picture(picture, name);
    for (int p = 0; p < 12; ++p) EXPECT_NEAR(found.rollout.data<double>()[p], product[token][p + 1], 1e-12) << name;
    ASSERT_EQ(found.heads.size(), 6u);
    for (std::size_t n = 0; n < 6; ++n) {
      const auto& head = found.heads[n];
      EXPECT_EQ(head.index.layer, std::int64_t(n / 3));
      EXPECT_EQ(head.index.head, std::int64_t(n % 3));
      const TensorView layer = seen.layers[n / 3];
      EXPECT_EQ(head.to_class, layer.at<double>({token, std::int64_t(n % 3), 0}));
      for (int p = 0; p < 12; ++p) {
        EXPECT_EQ(head.patches.data<double>()[p], layer.at<double>({token, std::int64_t(n % 3), p + 1}));
      }
    }
  }
  EXPECT_EQ(survey_picture(picture, "3,2").token, "3,2");
  EXPECT_THROW(survey_picture(picture, "4,0"), std::invalid_argument);
}

TEST_F(PictureAttentionTest, TheViewIsThePictureAgain) {
  Tensor picture = Tensor::uninitialized({5, 4, 3}, Dtype::u8);
  for (int i = 0; i < 60; ++i) picture.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 4 + 3);
  for (const auto& normalize :
       {std::optional<ImageProcessorConfig::Normalize>(),
        std::optional(ImageProcessorConfig::Normalize{{0.4f, 0.5f, 0.6f}, {0.2f, 0.3f, 0.4f}})}) {
    const ImageProcessorConfig config{.resize = {}, .normalize = normalize};
    const Tensor view = view_of(ImageProcessor(config).process(picture), config);
    EXPECT_TRUE(testing::same_bits(view, picture));
  }
}

TEST_F(PictureAttentionTest, JsonHasEveryNumber) {
  const PictureAttention seen = survey_picture(EncodedPicture(model_, pixels_));
  Tensor view = Tensor::zeros({2, 1, 3}, Dtype::u8);
  view.data<std::uint8_t>()[4] = 200;
  const auto json = nlohmann::json::parse(to_json(seen, view));
  EXPECT_EQ(json["grid"], nlohmann::json({4, 3}));
  EXPECT_EQ(json["token"], "class");
  EXPECT_EQ(json["rollout"][3][2].get<double>(), seen.rollout.view().at<double>({3, 2}));
  ASSERT_EQ(json["heads"].size(), 6u);
  EXPECT_EQ(json["heads"][4]["patches"][1][0].get<float>(),
            static_cast<float>(seen.heads[4].patches.view().at<double>({1, 0})));
  EXPECT_EQ(json["pixels"], nlohmann::json::parse("[[[0, 0, 0]], [[0, 200, 0]]]"));
}

// A grid whose heats are known: 1 x 2 patches of weights 0.1 and 0.9 on a picture of two colours.
TEST(PictureAttentionDrawing, TextAndSvg) {
  Tensor view = Tensor::zeros({2, 4, 3}, Dtype::u8);
  for (int y = 0; y < 2; ++y) view.data<std::uint8_t>()[(y * 4 + 3) * 3] = 200;
  Tensor weights = Tensor::zeros({1, 2}, Dtype::f64);
  weights.data<double>()[0] = 0.1, weights.data<double>()[1] = 0.9;
  const PictureAttention seen{.grid = {1, 2},
                              .token = "class",
                              .heads = {{.index = {}, .summary = {}, .to_class = 0, .patches = weights}},
                              .rollout = weights};
  const std::string plain = to_text(seen, view);
  EXPECT_NE(plain.find("\n..@@\n"), std::string::npos) << plain;
  EXPECT_NE(plain.find("0.900 to patch 0,1\n"), std::string::npos) << plain;
  const std::string colored = to_text(seen, view, {.color = true, .width = 98});
  // 24 times as large: 12 lines of the picture and of the heat over it.
  EXPECT_NE(colored.find("\x1b[38;2;200;0;0m\x1b[48;2;200;0;0m\xe2\x96\x80"), std::string::npos);
  EXPECT_EQ(std::count(colored.begin(), colored.end(), '\x80'), 12 * 2 * 48);
  const std::string svg = to_svg(seen, view);
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  // 0.1 / 0.9 is 2 of 15 levels; the colours are those of the map's stops at 2 / 15 and 1, by hand.
  EXPECT_NE(svg.find("<path fill=\"#300b2e\" d=\"M0 0h1v1h-1z\"/><path fill=\"#fcffa4\" d=\"M1 0h1v1h-1z\"/>"),
            std::string::npos)
      << svg;
  // 64 times as large: 128 x 256 pixels of 24 bits, as Python's struct and base64 write that header.
  EXPECT_NE(svg.find("data:image/bmp;base64,Qk02gAEAAAAAADYAAAAoAAAAAAEAAIAAAAABABgAAAAAAACAAQATCwAAEwsAAAAAAAAAAAAA"),
            std::string::npos)
      << svg.substr(0, 600);
}

}  // namespace
}  // namespace qkv
