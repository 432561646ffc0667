// The networks of bench/classifiers: gradients as slopes of the loss, what they learn, the same bits on any threads.
#include "classifiers/picture_network.h"

#include "attention/attention_testing.h"
#include "io/files_for_test.h"
#include "jacobian.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/threads.h"
#include "qkv/train/training.h"
#include "train/data/labelled_pictures.h"
#include "train/picture_files.h"
#include "train/watcher.h"

namespace qkv::bench {
namespace {

const std::vector<ConvolutionBlockConfig> kBlocks{{.out = 4}, {.out = 5, .pool = 2}};

TEST(PictureNetwork, GradientsAreSlopesOfTheLoss) {
  for (const std::vector<ConvolutionBlockConfig>& blocks : {{}, kBlocks}) {
    Random random(1);
    // Every parameter drawn, so that none is a constant that hides a fault.
    Weights weights([&](const std::string&, const Dims& shape) { return testing::normal(random, shape, Dtype::f64); },
                    Dtype::f64);
    PictureNetwork network({.picture = {5, 4}, .channels = 2, .blocks = blocks, .classes = 3, .label_smoothing = 0.1},
                           weights);
    const LabelledPictures batch{testing::normal(random, {4, 5, 4, 2}, Dtype::f64), {2, 0, 2, 1}};
    testing::want_gradients(network);
    EXPECT_EQ(network.backward(batch, 0).count, 4);
    testing::Trained<PictureNetwork> trained{network};
    testing::expect_parameter_gradients(trained, [&] { return network.backward(batch, 0).sum; }, 1e-6);
  }
}

// By hand: the linear one adds up the pixels times the weights of a class, and the bias.
TEST(PictureNetwork, WithoutBlocksIsLinear) {
  Weights weights({{"classifier.weight", Tensor::of<double>({2, 2}, {1, 0, 0, 2})},
                   {"classifier.bias", Tensor::of<double>({2}, {2.5, 0})}},
                  "test", Dtype::f64);
  PictureNetwork network({.picture = {1, 2}, .channels = 1, .classes = 2, .label_smoothing = 0.1}, weights);
  weights.expect_empty();
  // Logits (5.5, 2), (2.5, 2) and (2.5, 4): the last picture is wrong.
  const LabelledPictures batch{Tensor::of<double>({3, 1, 2, 1}, {3, 1, 0, 1, 0, 2}), {0, 0, 0}};
  const double nll = std::log(1 + std::exp(-3.5)) + std::log(1 + std::exp(-0.5)) + std::log(1 + std::exp(1.5));
  const LossSum sum = network.loss(batch);
  EXPECT_NEAR(sum.sum, nll, 1e-12);
  EXPECT_EQ(sum.metric, 2);
  EXPECT_EQ(sum.count, 3);
  // A twentieth of each target is the other class, whose nll is larger by the difference of the logits.
  EXPECT_NEAR(network.backward(batch, 0).sum, nll + 0.05 * (3.5 + 0.5 - 1.5), 1e-12);
}

// By hand: a pixel becomes the one above it and twice the one to its left, the norm turns the sign, and the classifier
// takes the largest. Of (a, b, c, d) come 0, 2a, a and b + 2c.
TEST(PictureNetwork, ABlockIsConvolutionNormReluAndPooling) {
  Weights weights({{"block0.convolution.weight", Tensor::of<double>({1, 1, 3, 3}, {0, 1, 0, 2, 0, 0, 0, 0, 0})},
                   {"block0.norm.weight", Tensor::of<double>({1}, {-1})},
                   {"block0.norm.bias", Tensor::of<double>({1}, {-1})},
                   {"block0.norm.running_mean", Tensor::of<double>({1}, {0.5})},
                   {"block0.norm.running_var", Tensor::of<double>({1}, {1 - 1e-5})},
                   {"classifier.weight", Tensor::of<double>({2, 1}, {1, 0})},
                   {"classifier.bias", Tensor::of<double>({2}, {0, 0})}},
                  "test", Dtype::f64);
  const PictureNetwork network({.picture = {2, 2}, .channels = 1, .blocks = {{.out = 1, .pool = 2}}, .classes = 2},
                               weights);
  weights.expect_empty();
  const auto loss = [&](const std::vector<double>& pixels) {
    return network.loss({Tensor::of<double>({1, 2, 2, 1}, pixels), {0}}).sum;
  };
  EXPECT_NEAR(loss({3, 1, -2, 2}), std::log(1 + std::exp(-2.5)), 1e-12);  // 0, 6, 3, -3
  EXPECT_NEAR(loss({3, 1, 4, 2}), std::log(2.0), 1e-12);                  // 0, 6, 3, 9
}

// Accuracy and weights, on stripes across and stripes down.
std::pair<double, std::string> train_on_stripes(const std::vector<ConvolutionBlockConfig>& blocks, std::int64_t steps) {
  const test::TemporaryFolder folder;
  const ImageProcessor processor({.resize = {}});
  const auto read = [&](int count, std::uint64_t seed) {
    return training::read_labelled_pictures(folder.put("stripes.csv", test::stripes(count, seed)), 9, processor);
  };
  const training::PictureFiles pictures = read(80, 1), unseen = read(100, 2);
  const training::PictureExamples examples(pictures, 1, {-1, -1, -1}), valid(unseen, 0, {});
  Weights weights = initial_weights(1);
  PictureNetwork network({.picture = {6, 6}, .blocks = blocks, .classes = 2}, weights);
  const TrainingConfig config{.steps = steps, .batch_tokens = 16, .schedule = {.rate = 0.01, .warmup = 5}};
  const TrainingResult result = train(network, TrainingData<LabelledPictures>{examples, valid}, config, folder / "out");
  return {result.best_metric->value, test::weight_bytes(network)};
}

// Each class has pictures and their negatives, both of which no linear function puts on one side unless its bias does:
// three of the four kinds are the most that it has right.
TEST(PictureNetwork, ConvolutionsLearnWhatIsNotLinear) {
  EXPECT_GE(train_on_stripes(kBlocks, 60).first, 0.97);
  EXPECT_LE(train_on_stripes({}, 60).first, 0.85);
}

TEST(PictureNetwork, HasTheSameBitsOnAnyThreads) {
  set_threads(1);
  const std::string alone = train_on_stripes(kBlocks, 10).second;
  set_threads(2);
  EXPECT_EQ(train_on_stripes(kBlocks, 10).second, alone);
  set_threads(0);
}

// In validation the statistics are not those of the batch.
TEST(PictureNetwork, APictureIsAsAlone) {
  Weights weights = initial_weights(1, Dtype::f64);
  const PictureNetwork network({.picture = {6, 6}, .channels = 1, .blocks = kBlocks, .classes = 3}, weights);
  Random random(1);
  const LabelledPictures batch{testing::normal(random, {5, 6, 6, 1}, Dtype::f64), {0, 1, 2, 2, 1}};
  double sum = 0;
  for (std::int64_t b = 0; b < 5; ++b) {
    const Tensor picture = Tensor::copy(batch.pictures.view().slice(0, b, b + 1));
    sum += network.loss({picture, {batch.labels[static_cast<std::size_t>(b)]}}).sum;
  }
  EXPECT_NEAR(network.loss(batch).sum, sum, 1e-12 * sum);
}

}  // namespace
}  // namespace qkv::bench
