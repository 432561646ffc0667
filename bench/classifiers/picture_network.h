// What the classifier of digits is compared with, made of this project's layers: blocks of a convolution, a batch norm,
// a ReLU and max pooling, and a linear layer over what they leave. Without blocks it is a linear classifier of pixels.
//
//   Weights weights = initial_weights(1);
//   PictureNetwork network({.picture = {8, 8}, .blocks = {{.out = 16}, {.out = 32, .pool = 2}}, .classes = 10},
//   weights);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qkv/layers/parameter.h"
#include "qkv/layers/weights.h"
#include "qkv/models/vit.h"

namespace qkv::bench {

struct ConvolutionBlockConfig {
  std::int64_t in = 0;  // of a network's block: what comes before it has
  std::int64_t out = 0;
  std::int64_t pool = 1;  // height and width of the windows of which the largest elements are left
};

// 3 x 3 pixels with as many zeros around the picture as keep its size, batch norm, ReLU, max pooling, as
// torch.nn.Conv2d, BatchNorm2d (epsilon 1e-5, momentum 0.1) and MaxPool2d with channels last.
class ConvolutionBlock : public Parameterized {
 public:
  // What backward needs of a forward pass in training.
  struct Saved {
    Tensor x, convolved, active;
    Tensor mean, scale;  // of the channels, f64; scale = 1 / sqrt(variance + epsilon)
  };

  // Takes convolution.weight [out, in, 3, 3], and norm.weight, bias, running_mean and running_var, all [out].
  ConvolutionBlock(const ConvolutionBlockConfig& config, Weights& weights, const std::string& scope);

  PictureSize out_size(const PictureSize& size) const;

  // With the running statistics; or with the batch's own, which move them.
  Tensor forward(const Tensor& x) const;
  Tensor forward(Tensor x, Saved& saved);
  // Adds to the gradients of the parameters; gives that of x.
  Tensor backward(const Saved& saved, const Tensor& grad_out);

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;
  // [out, 9 * in]: the weights of the nine pixels one after the other.
  Tensor filters() const;
  Tensor convolve(const Tensor& x) const;
  Tensor convolve_backward(const Tensor& x, const Tensor& grad_out);
  Tensor normalize(const Tensor& x, const Tensor& mean, const Tensor& scale) const;
  Tensor normalize_backward(const Saved& saved, const Tensor& grad_out);

  ConvolutionBlockConfig config_;
  Parameter filters_, weight_, bias_, running_mean_, running_var_;
};

struct PictureNetworkConfig {
  PictureSize picture{};
  std::int64_t channels = 3;
  std::vector<ConvolutionBlockConfig> blocks{};
  std::int64_t classes = 0;
  double label_smoothing = 0;  // spread evenly over the classes
};

class PictureNetwork : public TrainableOn<LabelledPictures> {
 public:
  // Takes the tensors of "block0.", "block1." and so on, classifier.weight and classifier.bias.
  PictureNetwork(const PictureNetworkConfig& config, Weights& weights);

  std::string metric_name() const override { return "accuracy"; }
  LossSum loss(const LabelledPictures& batch) const override;
  LossSum backward(const LabelledPictures& batch, std::uint64_t dropout_seed) override;

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;
  // What the blocks leave, with the running statistics of their norms.
  Tensor features(const Tensor& pictures) const;
  Tensor logits(const Tensor& features) const;

  PictureNetworkConfig config_;
  std::vector<ConvolutionBlock> blocks_;
  Parameter weight_, bias_;
};

}  // namespace qkv::bench
