/// \file
/// Vision Transformer: patches of a picture and a class token through a pre-norm encoder, and a classifier. Reads and
/// writes the folders of transformers' ViT and DINOv2, which has layer scale and whose classifier also takes the mean
/// of the patches. Sources: Dosovitskiy et al., "An image is worth 16x16 words" (2021); Oquab et al., "DINOv2" (2023).
///
///     Vit model = Vit::load("models/dino");
///     Tensor hidden = model.forward(pictures);   // [batch, 1 + patches, model_dim], the class token first
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/layers/patch_embedding.h"
#include "qkv/layers/transformer.h"
#include "qkv/models/trainable.h"
#include "qkv/observer.h"

namespace qkv {

enum class VitKind {
  vit,     ///< the classifier takes the class token
  dinov2,  ///< layer scale; the classifier takes the class token and the mean of the patches
};

struct VitConfig {
  VitKind kind = VitKind::vit;
  PictureSize picture{};  ///< in pixels, that positions are learnt for
  PictureSize patch{};
  std::int64_t channels = 3;
  std::int64_t model_dim = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t ff_dim = 0;  ///< dinov2: a multiple of model_dim
  Activation activation = Activation::gelu;
  double epsilon = 1e-12;
  std::vector<std::string> labels{};  ///< names of the classes; none: no classifier

  bool operator==(const VitConfig&) const = default;
};

struct VitOptions {
  int threads = 0;  ///< 0: threads()
  std::stop_token stop{};
  std::span<const Mask> masks{};  ///< who may attend to whom, one for each layer; none: all to all
};

struct VitTrainingOptions {
  double dropout = 0;          ///< everywhere: embeddings, weights of attention, sublayers, activations
  double label_smoothing = 0;  ///< spread evenly over the classes
  std::uint64_t seed = 0;      ///< of dropout
};

struct LabelledPictures {
  Tensor pictures;                   ///< [batch, height, width, channels]
  std::vector<std::int32_t> labels;  ///< one for each
};

/// Safe for concurrent calls of const members; only update() and backward() modify it.
class QKV_API Vit : public Parameterized {
 public:
  /// Whether config.json of that folder is one of a Vision Transformer. FormatError or IoError if it cannot be read.
  static bool is_in(const std::string& folder);
  /// `folder` holds config.json, whose model_type is "vit" or "dinov2", and model.safetensors (or an index, and the
  /// files that it names), with or without a classifier; the pooler and the mask token are ignored. FormatError, naming
  /// the file and what is wrong, for anything else that is missing, superfluous, of another shape or not supported.
  /// Matrices are kept as `storage` says (matmul.h), except the classifier's.
  static Vit load(const std::string& folder, WeightStorage storage = WeightStorage::full);
  /// What its config.json says.
  static VitConfig read_config(const std::string& folder);
  /// The same, after checking the names, shapes and types of all weights without reading them.
  static VitConfig check(const std::string& folder);
  /// Writes config.json and model.safetensors, the weights as `dtype`.
  void save(const std::string& folder, Dtype dtype = Dtype::f32) const;

  /// Takes embeddings.* (patch_embedding.h), layers.N.* and norm.* (transformer.h), and with labels classifier.weight
  /// [labels, model_dim, for dinov2 twice that] and classifier.bias.
  Vit(const VitConfig& config, Weights& weights);
  /// Weights to train from (initial_weights.h).
  static Vit initial(const VitConfig& config, std::uint64_t seed, WeightStorage storage = WeightStorage::full);

  /// The patches of pictures of this size. std::invalid_argument if there is none.
  PictureSize grid_of(const PictureSize& pixels) const { return embeddings_.grid_of(pixels); }

  /// pictures [batch, height, width, channels] of any size that holds a patch -> the last hidden states [batch, 1 +
  /// patches, model_dim]. The observer receives "embeddings" and what transformer.h names, as rows [tokens, ...] of all
  /// pictures.
  Tensor forward(const TensorView& pictures, const VitOptions& options = {}, Observer* observer = nullptr) const;
  /// [batch, labels]. std::invalid_argument if the model has no classifier.
  Tensor logits(const TensorView& pictures, const VitOptions& options = {}, Observer* observer = nullptr) const;

  /// As in trainable.h; the metric counts the pictures whose label has the largest logit.
  LossSum loss(const LabelledPictures& batch) const;
  LossSum backward(const LabelledPictures& batch, const VitTrainingOptions& options);

  const VitConfig& config() const { return config_; }

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;
  /// What the classifier takes of hidden states [batch, tokens, model_dim], and back.
  Tensor features(const Tensor& hidden) const;
  Tensor features_backward(const Tensor& grad, const Dims& hidden) const;
  Tensor classify(const Tensor& features, int threads) const;
  void check_labels(const LabelledPictures& batch) const;

  VitConfig config_;
  PatchEmbedding embeddings_;
  Encoder encoder_;
  Parameter classifier_weight_, classifier_bias_;
};

}  // namespace qkv
