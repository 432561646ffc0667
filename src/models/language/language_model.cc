// LanguageModel: finds the kind of a folder's model, and its tensors by the names of that kind; embeddings, layers and
// output, over whole sequences and token by token.
#include "qkv/models/language_model.h"

#include <algorithm>
#include <utility>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/stop.h"
#include "layers/basic/rows.h"
#include "layers/stack/layer_parts.h"
#include "models/folder_tensors.h"
#include "models/language/language_kind.h"
#include "models/token_rows.h"
#include "ops/rowwise/row_kernels.h"
#include "qkv/stop.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

constexpr const char* kEmbeddingScope = "embeddings.";
constexpr const char* kPositionScope = "positions.";
constexpr const char* kOutputScope = "output.";

const LanguageKind& language_kind_of(const ModelConfig& json) {
  return family_of_kind<LanguageKind>(json["model_type"], "language models");
}

LanguageModelConfig read_language_config(const ModelConfig& json) {
  json.expect({});
  return language_kind_of(json).read(json);
}

// The folder that LanguageModel::load() and check() read: everything but the weights' elements is checked when it is
// made.
class LanguageFolder {
 public:
  explicit LanguageFolder(const std::string& folder)
      : json_(folder), config_(read_language_config(json_)), tensors_(folder) {
    expect_tensors(language_kind_of(json_));
  }

  const LanguageModelConfig& config() const { return config_; }
  // Under our names; the folder must outlive them.
  Weights weights(WeightStorage storage) { return tensors_.weights(storage); }

 private:
  void expect_tensors(const LanguageKind& kind) {
    const std::string prefix = tensors_.contains(std::string(kind.prefix) + kind.table) ? kind.prefix : "";
    const std::string output = kind.output, weight = output + ".weight";
    tensors_.pass_over([&](std::string_view name) {
      return std::ranges::any_of(kind.passed_over, [&](std::string_view end) { return name.ends_with(end); });
    });
    const Dims table{config_.vocab, config_.model_dim};
    TensorNames names(prefix);
    names.add(std::string(kEmbeddingScope) + "weight", table, {kind.table});
    if (kind.positions != nullptr) {
      names.add(std::string(kPositionScope) + "weight", {config_.positions, config_.model_dim}, {kind.positions});
    }
    kind.name(config_, names);
    if (config_.tied) {
      tensors_.tie(weight, prefix + kind.table);
    } else {
      names.add_head(std::string(kOutputScope) + "weight", table, {}, weight);
    }
    if (config_.output_bias) {
      names.add_head(std::string(kOutputScope) + "bias", {config_.vocab}, {}, output + ".bias");
    }
    tensors_.expect(names.all());
  }

  ModelConfig json_;
  LanguageModelConfig config_;
  FolderTensors tensors_;
};

StackConfig stack_config(const LanguageModelConfig& config) {
  refuse_unless(!config.layers.empty(), "language_model", "there are no layers");
  return {.layer = config.layers.front(), .layers = std::ssize(config.layers), .each = config.layers};
}

// Whether panels hold the table of embeddings as it is: then it is kept once, tied or not, and mapped where they are.
bool is_whole_in_panels(const Weights& weights) {
  const WeightStorage storage = weights.storage();
  return storage == WeightStorage::full || precision_of(storage) != Precision::exact ||
         (storage == WeightStorage::bf16 && weights.is_bf16(std::string(kEmbeddingScope) + "weight"));
}

void cap_logits(double cap, Tensor& logits, int threads) {
  constexpr std::int64_t kTaskElements = 1 << 14;
  const std::int64_t count = logits.element_count();
  const auto limit = static_cast<float>(cap);
  parallel_for(divide_up(count, kTaskElements), threads, [&](std::int64_t task, int) {
    const std::int64_t begin = task * kTaskElements, end = std::min(begin + kTaskElements, count);
    for (std::int64_t i = begin; i < end; ++i) {
      float& logit = logits.data<float>()[i];
      logit = limit * static_cast<float>(tanh(static_cast<double>(logit / limit)));
    }
  });
}

}  // namespace

bool LanguageModel::is_in(const std::string& folder) {
  const ModelConfig json(folder);
  const auto type = json.find("model_type");
  return type && type->is_string() && std::ranges::any_of(model_kinds(), [&](const ModelKind& kind) {
           return kind.as<LanguageKind>() != nullptr && type->string() == kind.type;
         });
}

LanguageModelConfig LanguageModel::read_config(const std::string& folder) {
  return read_language_config(ModelConfig(folder));
}

LanguageModelConfig LanguageModel::check(const std::string& folder) { return LanguageFolder(folder).config(); }

LanguageModel LanguageModel::load(const std::string& folder, WeightStorage storage) {
  LanguageFolder files(folder);
  Weights weights = files.weights(storage);
  return LanguageModel(files.config(), weights);
}

LanguageModel::LanguageModel(const LanguageModelConfig& config, Weights& weights)
    : config_(config),
      embeddings_(
          {.count = config.vocab, .dim = config.model_dim, .projects = config.tied || is_whole_in_panels(weights)},
          weights, kEmbeddingScope),
      positions_(part_if<Embedding>(config.learnt_positions,
                                    EmbeddingConfig{.count = config.positions, .dim = config.model_dim}, weights,
                                    kPositionScope)),
      layers_(stack_config(config), weights) {
  if (config.tied) return;
  output_.emplace(LinearConfig{.in = config.model_dim, .out = config.vocab, .bias = config.output_bias}, weights,
                  kOutputScope);
}

Tensor LanguageModel::embed(std::span<const std::int32_t> ids, std::span<const std::int32_t> positions) const {
  Tensor x = embeddings_.forward(ids);
  if (config_.embedding_scale != 1) scale_rows(x, config_.embedding_scale);
  if (positions_) positions_->add(positions, x);
  return x;
}

Tensor LanguageModel::project(const TensorView& hidden, int threads) const {
  Tensor logits = Tensor::uninitialized({hidden.size(0), config_.vocab}, hidden.dtype());
  if (output_) {
    output_->forward(hidden, logits, threads);
  } else {
    matmul(hidden, embeddings_.projection(), logits, {.threads = threads});
  }
  if (config_.soft_cap > 0) cap_logits(config_.soft_cap, logits, threads);
  return logits;
}

Tensor LanguageModel::hidden(Prompts sequences, const LanguageModelOptions& options, Observer* observer) const {
  const StopScope stop(options.stop);
  TokenRows rows;
  for (const std::vector<std::int32_t>& sequence : sequences) {
    check_length(std::ssize(sequence), config_.positions);
    rows.add(sequence, 0);
  }
  Tensor x = embed(rows.ids, rows.positions);
  const Tensor offsets = offsets_of(rows.lengths);
  if (observer != nullptr) observer->receive("embeddings", x);
  layers_.run({{x, offsets}, {.mask = Mask::causal(), .threads = options.threads}}, x, observer,
              {.self = options.masks});
  return x;
}

Tensor LanguageModel::logits(Prompts sequences, const LanguageModelOptions& options, Observer* observer) const {
  const StopScope stop(options.stop);
  return project(hidden(sequences, options, observer), options.threads);
}

Tensor LanguageModel::read_out(const TensorView& rows, const LanguageModelOptions& options) const {
  const StopScope stop(options.stop);
  return project(layers_.final_norm(rows, options.threads), options.threads);
}

void LanguageModel::observe_gradients(std::span<const std::int32_t> sequence, std::int64_t behind, std::int32_t next,
                                      Observer& observer) const {
  TokenRows rows;
  check_length(std::ssize(sequence), config_.positions);
  refuse_unless(behind > 0 && behind <= std::ssize(sequence), "language_model", "cannot continue {} of {} tokens",
                behind, sequence.size());
  refuse_unless(next >= 0 && next < config_.vocab, "language_model", "id {} is not one of {}", next, config_.vocab);
  rows.add(sequence, 0);
  const Tensor x = embed(rows.ids, rows.positions), offsets = offsets_of(rows.lengths);
  const MultiHeadAttentionOptions options{.mask = Mask::causal()};
  EncoderSaved saved;
  const Tensor hidden = layers_.forward({x, offsets}, options, {}, saved);
  const TensorView row = hidden.view().slice(0, behind - 1, behind);
  const Tensor logits = project(row, 0);
  const std::span<const float> own(logits.data<float>(), static_cast<std::size_t>(config_.vocab));
  const double sum = log_sum_exp(own);
  Tensor grad_logits = Tensor::uninitialized(logits.shape());
  for (std::size_t id = 0; id < own.size(); ++id) {
    const auto logit = static_cast<double>(own[id]);
    const double share = logit / config_.soft_cap, slope = config_.soft_cap > 0 ? 1 - share * share : 1;
    const double wanted = std::cmp_equal(id, next) ? 1 : 0;
    grad_logits.data<float>()[id] = static_cast<float>((exp(logit - sum) - wanted) * slope);
  }
  Tensor storage, grad = Tensor::zeros(hidden.shape());
  const PackedMatrix table = output_ ? output_->pack_for_backward(0) : PackedMatrix(embeddings_.table(storage));
  matmul(grad_logits, table, grad.view().slice(0, behind - 1, behind));
  // Changes nothing: only training wants gradients of parameters.
  const_cast<Encoder&>(layers_).backward({x, offsets}, options, {}, saved, grad, &observer);
}

void LanguageModel::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  walk(embeddings_, scope + kEmbeddingScope);
  walk(positions_, scope + kPositionScope);
  walk(layers_, scope);
  walk(output_, scope + kOutputScope);
}

}  // namespace qkv
