// Vit: embeddings, encoder and classifier, forward and backward; its folder, in and out.
#include "qkv/models/vit.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "core/refuse.h"
#include "core/visit_dtype.h"
#include "layers/basic/affine.h"
#include "layers/basic/layer_checks.h"
#include "layers/basic/rows.h"
#include "models/folder_tensors.h"
#include "models/model_config.h"
#include "models/pictures/picture_kind.h"
#include "qkv/files.h"
#include "qkv/layers/cross_entropy.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/stop.h"

namespace qkv {
namespace {

// The folder that Vit::load() and check() read: everything but the weights' elements is checked when it is made.
class VitFolder {
 public:
  explicit VitFolder(const std::string& folder);

  // Without labels if the folder has no classifier.
  const VitConfig& config() const { return config_; }
  // Under our names; the folder must outlive them.
  Weights weights(WeightStorage storage) { return tensors_.weights(storage); }

 private:
  VitConfig config_;
  FolderTensors tensors_;
};

constexpr FixedKey kVitFixed[] = {{"qkv_bias", "true"}, {"use_swiglu_ffn", "false"}};

// A number for both sides, or [height, width].
PictureSize read_size(const ModelConfig& json, const std::string& key) {
  const io::JsonValue value = json[key];
  if (!value.is_list()) return {json.size(key), json.size(key)};
  const std::vector<io::JsonValue> sides = value.elements();
  if (sides.size() != 2) value.refuse("must be one number, or height and width");
  return {sides[0].integer(1, kMaxLayerSize), sides[1].integer(1, kMaxLayerSize)};
}

const ModelKind& list_row_of(VitKind kind) {
  return *std::ranges::find_if(model_kinds(), [&](const ModelKind& known) {
    const auto* own = known.as<PictureKind>();
    return own != nullptr && own->kind == kind;
  });
}

const PictureKind& kind_of(const VitConfig& config) { return *list_row_of(config.kind).as<PictureKind>(); }

// Vectors of model_dim that the classifier takes.
std::int64_t parts(const VitConfig& config) { return kind_of(config).classifies_mean ? 2 : 1; }

TensorNames vit_names(const VitConfig& config, const std::string& prefix) {
  const std::int64_t dim = config.model_dim, patch = config.patch.height * config.patch.width;
  const std::int64_t grid = (config.picture.height / config.patch.height) * (config.picture.width / config.patch.width);
  TensorNames names(prefix);
  const std::string projection = "embeddings.patch_embeddings.projection.";
  names.add_reshaped("embeddings.projection.weight", {dim, config.channels * patch}, projection + "weight",
                     {dim, config.channels, config.patch.height, config.patch.width});
  names.add("embeddings.projection.bias", {dim}, {projection + "bias"});
  names.add_reshaped("embeddings.class_token", {dim}, "embeddings.cls_token", {1, 1, dim});
  names.add_reshaped("embeddings.positions.weight", {1 + grid, dim}, "embeddings.position_embeddings",
                     {1, 1 + grid, dim});
  const PictureKind& kind = kind_of(config);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string to = fmt::format("layers.{}.", i), from = fmt::format("encoder.layer.{}.", i);
    const std::string self = from + "attention.attention.";
    names.add_norm(to + "norm1", from + kind.norm1, dim);
    names.add_attention(to + "self_attn", {self + "query", self + "key", self + "value"},
                        from + "attention.output.dense", dim);
    names.add_norm(to + "norm2", from + kind.norm2, dim);
    names.add_linear(to + "linear1", from + kind.linear1, config.ff_dim, dim);
    names.add_linear(to + "linear2", from + kind.linear2, dim, config.ff_dim);
    if (!kind.layer_scale) continue;
    names.add(to + "norm1.layer_scale.weight", {dim}, {from + "layer_scale1.lambda1"});
    names.add(to + "norm2.layer_scale.weight", {dim}, {from + "layer_scale2.lambda1"});
  }
  names.add_norm("norm", "layernorm", dim);
  if (config.labels.empty()) return names;
  const std::int64_t labels = std::ssize(config.labels);
  names.add_head("classifier.weight", {labels, parts(config) * dim});
  names.add_head("classifier.bias", {labels});
  return names;
}

std::string prefix_of(VitKind kind) { return std::string(list_row_of(kind).type) + "."; }

std::string config_json(const VitConfig& config, Dtype dtype) {
  using Json = nlohmann::ordered_json;
  const PictureKind& kind = kind_of(config);
  const bool has_labels = !config.labels.empty();
  const auto both = [](const PictureSize& size) {
    return size.height == size.width ? Json(size.height) : Json::array({size.height, size.width});
  };
  Json json = Json::object();
  json.update({{"architectures", {has_labels ? kind.classifier : kind.model}},
               {"model_type", list_row_of(config.kind).type},
               {"image_size", both(config.picture)},
               {"patch_size", both(config.patch)},
               {"num_channels", config.channels},
               {"hidden_size", config.model_dim},
               {"num_hidden_layers", config.layers},
               {"num_attention_heads", config.heads},
               {"hidden_act", name_of(config.activation)},
               {"layer_norm_eps", config.epsilon},
               {"qkv_bias", true},
               {"dtype", std::string(transformers_dtype(dtype))}});
  kind.write_ff_dim(config, json);
  if (has_labels) {
    Json names = Json::object(), numbers = Json::object();
    for (std::size_t i = 0; i < config.labels.size(); ++i) {
      names[std::to_string(i)] = config.labels[i];
      numbers[config.labels[i]] = i;
    }
    json.update({{"id2label", names}, {"label2id", numbers}});
  }
  return json.dump(2) + "\n";
}

// As Vit::is_in() and Vit::read_config().
bool is_vit_folder(const std::string& folder) {
  const ModelConfig json(folder);
  const auto type = json.find("model_type");
  return type && std::ranges::any_of(model_kinds(), [&](const ModelKind& kind) {
           return kind.as<PictureKind>() != nullptr && type->string() == kind.type;
         });
}

VitConfig read_vit_config(const std::string& folder) {
  const ModelConfig json(folder);
  const auto& kind = family_of_kind<PictureKind>(json["model_type"], "Vision Transformers");
  json.expect(kVitFixed);
  VitConfig config{.kind = kind.kind,
                   .picture = read_size(json, "image_size"),
                   .patch = read_size(json, "patch_size"),
                   .channels = json.find("num_channels") ? json.size("num_channels") : 3,
                   .model_dim = json.size("hidden_size"),
                   .layers = json.layers("num_hidden_layers"),
                   .heads = json.heads("num_attention_heads", "hidden_size"),
                   .ff_dim = kind.read_ff_dim(json),
                   .activation = json.activation("hidden_act"),
                   .epsilon = json.epsilon("layer_norm_eps"),
                   .labels = json.labels()};
  if (config.patch.height > config.picture.height || config.patch.width > config.picture.width) {
    json["patch_size"].refuse("must not be larger than image_size");
  }
  return config;
}

VitFolder::VitFolder(const std::string& folder) : config_(read_vit_config(folder)), tensors_(folder) {
  if (!tensors_.contains("classifier.weight")) config_.labels.clear();
  const std::string whole = prefix_of(config_.kind);
  const std::string prefix = tensors_.contains(whole + "embeddings.cls_token") ? whole : "";
  tensors_.pass_over([&](std::string_view name) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    return name == "embeddings.mask_token" || name.starts_with("pooler.");
  });
  tensors_.expect(vit_names(config_, prefix).all());
}

// As Vit::save().
void write_vit_folder(const std::string& folder, const Vit& model, Dtype dtype) {
  const VitConfig& config = model.config();
  const TensorNames names = vit_names(config, config.labels.empty() ? "" : prefix_of(config.kind));
  std::map<std::string, Tensor> theirs;
  model.visit([&](const std::string& name, const Parameter& own) { names.add_theirs(name, own.value, dtype, theirs); });
  write_file(folder + "/config.json", config_json(config, dtype));
  // Last: a folder that has weights is whole.
  write_safetensors(folder + "/model.safetensors", {.tensors = std::move(theirs), .metadata = {{"format", "pt"}}});
}

constexpr const char* kEmbeddings = "embeddings.";
constexpr const char* kWeight = "classifier.weight";
constexpr const char* kBias = "classifier.bias";

// Sites with their own dropout.
enum VitSite : std::uint32_t { kVitEmbeddings, kVitEncoder };

StackConfig stack_config(const VitConfig& config) {
  return {.layer = {.model_dim = config.model_dim,
                    .heads = config.heads,
                    .ff_dim = config.ff_dim,
                    .activation = config.activation,
                    .epsilon = config.epsilon,
                    .norm_order = NormOrder::pre,
                    .layer_scale = kind_of(config).layer_scale},
          .layers = config.layers,
          .final_norm = true};
}

}  // namespace

bool Vit::is_in(const std::string& folder) { return is_vit_folder(folder); }

VitConfig Vit::read_config(const std::string& folder) { return read_vit_config(folder); }

VitConfig Vit::check(const std::string& folder) { return VitFolder(folder).config(); }

Vit Vit::load(const std::string& folder, WeightStorage storage) {
  VitFolder files(folder);
  Weights weights = files.weights(storage);
  return Vit(files.config(), weights);
}

void Vit::save(const std::string& folder, Dtype dtype) const { write_vit_folder(folder, *this, dtype); }

Vit::Vit(const VitConfig& config, Weights& weights)
    : config_(config),
      embeddings_({.channels = config.channels,
                   .patch = config.patch,
                   .grid = {config.picture.height / std::max<std::int64_t>(config.patch.height, 1),
                            config.picture.width / std::max<std::int64_t>(config.patch.width, 1)},
                   .dim = config.model_dim},
                  weights, kEmbeddings),
      encoder_(stack_config(config), weights) {
  if (config.labels.empty()) return;
  const std::int64_t labels = std::ssize(config.labels);
  classifier_weight_.value = weights.take(kWeight, {labels, parts(config) * config.model_dim});
  classifier_bias_.value = weights.take(kBias, {labels});
}

Vit Vit::initial(const VitConfig& config, std::uint64_t seed, WeightStorage storage) {
  Weights weights = initial_weights(seed, Dtype::f32, storage);
  return Vit(config, weights);
}

Tensor Vit::forward(const TensorView& pictures, const VitOptions& options, Observer* observer) const {
  const StopScope stop(options.stop);
  const Tensor x = embeddings_.forward(pictures, options.threads);
  const TensorView rows = x.view().reshape({x.size(0) * x.size(1), x.size(2)});
  if (observer != nullptr) observer->receive("embeddings", rows);
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(x.size(0)), x.size(1));
  const Tensor offsets = offsets_of(lengths);
  const Tensor hidden =
      encoder_.run({{rows, offsets}, {.threads = options.threads}}, observer, {.self = options.masks});
  return Tensor::copy(hidden.view().reshape(x.shape()));
}

Tensor Vit::features(const Tensor& hidden) const {
  const std::int64_t batch = hidden.size(0), patches = hidden.size(1) - 1, dim = hidden.size(2);
  Tensor out = Tensor::uninitialized({batch, parts(config_) * dim}, hidden.dtype());
  const auto run = [&]<class T>(T) {
    for (std::int64_t b = 0; b < batch; ++b) {
      const T* rows = hidden.data<T>() + b * (1 + patches) * dim;
      T* to = out.data<T>() + b * out.size(1);
      std::copy_n(rows, dim, to);
      for (std::int64_t e = dim; e < out.size(1); ++e) {
        double sum = 0;
        for (std::int64_t i = 1; i <= patches; ++i) sum += static_cast<double>(rows[i * dim + e - dim]);
        to[e] = static_cast<T>(sum / static_cast<double>(patches));
      }
    }
  };
  visit_f32_f64(hidden.dtype(), run);
  return out;
}

Tensor Vit::features_backward(const Tensor& grad, const Dims& hidden) const {
  Tensor out = Tensor::zeros(hidden, grad.dtype());
  const std::int64_t tokens = hidden[1], dim = hidden[2];
  const auto run = [&]<class T>(T) {
    for (std::int64_t b = 0; b < hidden[0]; ++b) {
      const T* from = grad.data<T>() + b * grad.size(1);
      T* rows = out.data<T>() + b * tokens * dim;
      std::copy_n(from, dim, rows);
      for (std::int64_t e = dim; e < grad.size(1); ++e) {
        for (std::int64_t i = 1; i < tokens; ++i) rows[i * dim + e - dim] = from[e] / static_cast<T>(tokens - 1);
      }
    }
  };
  visit_f32_f64(grad.dtype(), run);
  return out;
}

Tensor Vit::logits(const TensorView& pictures, const VitOptions& options, Observer* observer) const {
  const StopScope stop(options.stop);
  refuse_unless(!config_.labels.empty(), "vit", "the model has no classifier");
  return classify(features(forward(pictures, options, observer)), options.threads);
}

Tensor Vit::classify(const Tensor& features, int threads) const {
  Tensor out = Tensor::uninitialized({features.size(0), std::ssize(config_.labels)}, features.dtype());
  matmul(features, PackedMatrix(classifier_weight_.value.view().transpose(0, 1), threads), out,
         {.bias = classifier_bias_.value, .threads = threads});
  return out;
}

void Vit::check_labels(const LabelledPictures& batch) const {
  refuse_unless(batch.pictures.rank() == 4 && batch.pictures.size(0) == std::ssize(batch.labels), "vit",
                "{} labels for pictures {}", batch.labels.size(), to_string(batch.pictures.shape()));
  for (const std::int32_t label : batch.labels) {
    refuse_unless(label >= 0 && label < std::ssize(config_.labels), "vit", "label {} is not one of {} classes", label,
                  config_.labels.size());
  }
}

LossSum Vit::loss(const LabelledPictures& batch) const {
  check_labels(batch);
  const Tensor x = features(forward(batch.pictures));
  LossSum sum = cross_entropy({.weight = classifier_weight_.value, .bias = classifier_bias_.value}, x, batch.labels);
  sum.metric = count_right(classify(x, 0), batch.labels);
  return sum;
}

LossSum Vit::backward(const LabelledPictures& batch, const VitTrainingOptions& options) {
  check_labels(batch);
  const Dropout dropout{.p = options.dropout, .seed = options.seed};
  const Dropout at_embeddings = dropout_at(dropout, kVitEmbeddings);
  const Dropout at_encoder = dropout_at(dropout, kVitEncoder);
  Tensor x = embeddings_.forward(batch.pictures);
  const Dims rows{x.element_count() / config_.model_dim, config_.model_dim};
  drop(at_embeddings, x.view().reshape(rows), x.view().reshape(rows), 0);
  EncoderSaved saved;
  const Tensor hidden = encoder_.forward(x, {}, at_encoder, saved);
  const Tensor taken = features(hidden);
  Tensor grad_taken = Tensor::zeros(taken.shape(), taken.dtype());
  const LossSum sum = cross_entropy(
      {.weight = classifier_weight_.value, .bias = classifier_bias_.value}, taken, batch.labels,
      {.smoothing = options.label_smoothing},
      {.hidden = grad_taken, .weight = gradient_view(classifier_weight_), .bias = gradient_view(classifier_bias_)});
  Tensor grad = encoder_.backward(x, {}, at_encoder, saved, features_backward(grad_taken, hidden.shape()));
  drop(at_embeddings, grad.view().reshape(rows), grad.view().reshape(rows), 0);
  embeddings_.backward(batch.pictures, grad);
  return sum;
}

void Vit::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  walk(embeddings_, scope + kEmbeddings);
  walk(encoder_, scope);
  if (config_.labels.empty()) return;
  walk(classifier_weight_, scope + kWeight);
  walk(classifier_bias_, scope + kBias);
}

}  // namespace qkv
