// LanguageModel: finds the kind of a folder's model, and its tensors by the names of that kind; embeddings, layers and
// output, over whole sequences and token by token.
#include "qkv/models/language_model.h"

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <utility>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/stop.h"
#include "layers/basic/rows.h"
#include "models/folder_tensors.h"
#include "models/model_kinds.h"
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

// What LanguageModel::load() and check() read: everything but the weights' elements is checked when it is made.
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

// The tokens of some sequences, one after the other, and where each is.
struct TokenRows {
  std::vector<std::int32_t> ids, positions;
  std::vector<std::int64_t> lengths;

  void add(std::span<const std::int32_t> tokens, std::int64_t first) {
    ids.insert(ids.end(), tokens.begin(), tokens.end());
    lengths.push_back(std::ssize(tokens));
    for (std::int64_t i = 0; i < std::ssize(tokens); ++i) positions.push_back(static_cast<std::int32_t>(first + i));
  }
};

void check_length(std::int64_t length, const LanguageModelConfig& config) {
  refuse_unless(length <= config.positions, "language_model", "a sequence has {} tokens; the model reads at most {}",
                length, config.positions);
}

// How many of `left` tokens are read at once.
std::int64_t next_chunk(std::int64_t left, std::int64_t chunk) {
  const std::int64_t wanted = chunk == 0 ? left : std::min(std::max<std::int64_t>(chunk, 2), left);
  return left - wanted == 1 ? left : wanted;
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
      embeddings_({.count = config.vocab, .dim = config.model_dim, .projects = config.tied}, weights, kEmbeddingScope),
      positions_(config.learnt_positions
                     ? std::optional<Embedding>(std::in_place,
                                                EmbeddingConfig{.count = config.positions, .dim = config.model_dim},
                                                weights, kPositionScope)
                     : std::nullopt),
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
    check_length(std::ssize(sequence), config_);
    rows.add(sequence, 0);
  }
  const Tensor x = embed(rows.ids, rows.positions), offsets = offsets_of(rows.lengths);
  if (observer != nullptr) observer->receive("embeddings", x);
  return layers_.run({{x, offsets}, {.mask = Mask::causal(), .threads = options.threads}}, observer,
                     {.self = options.masks});
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
  check_length(std::ssize(sequence), config_);
  refuse_unless(behind > 0 && behind <= std::ssize(sequence), "language_model",
                "nothing is written behind {} of {} tokens", behind, sequence.size());
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

// The prompts, and what generate() adds to them.
class LanguageModel::Continuation final : public NextTokens {
 public:
  Continuation(const LanguageModel& model, Prompts prompts, const PromptOptions& options)
      : model_(model),
        options_(options),
        cache_(model.layers_.make_cache(std::ssize(prompts))),
        last_(Tensor::uninitialized({std::ssize(prompts), model.config_.model_dim})),
        lengths_(prompts.size()),
        prompt_of_(prompts.size()) {
    const StopScope stop(options.stop);
    std::iota(prompt_of_.begin(), prompt_of_.end(), std::size_t{0});
    ask_for_weights();
    refuse_unless(options.chunk >= 0, "language_model", "chunks are of {} tokens; at least 0 is needed", options.chunk);
    for (const std::vector<std::int32_t>& prompt : prompts) {
      refuse_unless(!prompt.empty(), "language_model", "a prompt is empty; it needs a token");
      check_length(std::ssize(prompt), model.config_);
    }
    while (read_some(prompts)) check_stop();
  }

  std::int64_t vocab() const override { return model_.config_.vocab; }

  MutableTensorView step(std::span<const std::int64_t> parents, std::span<const std::int32_t> tokens) override {
    const StopScope stop(options_.stop);
    cache_.reorder(parents);
    const auto continue_rows = [&](auto& rows) {
      std::remove_reference_t<decltype(rows)> next;
      for (const std::int64_t parent : parents) next.push_back(rows[static_cast<std::size_t>(parent)]);
      rows = std::move(next);
    };
    continue_rows(lengths_);
    continue_rows(prompt_of_);
    if (is_first_) {
      is_first_ = false;
      std::vector<Tensor> rows;
      for (const std::int64_t parent : parents) {
        rows.push_back(Tensor::copy(std::as_const(last_).view().slice(0, parent, parent + 1)));
      }
      logits_ = model_.project(stack_rows(std::move(rows)), options_.threads);
    } else {
      logits_ = model_.project(read_tokens(tokens), options_.threads);
    }
    return logits_;
  }

 private:
  void ask_for_weights() {
    const std::vector<TransformerLayerConfig>& layers = model_.config_.layers;
    if (!options_.heads.empty()) last_weights_.resize(layers.size());
    for (const auto& [layer, head] : options_.heads) {
      refuse_unless(layer >= 0 && layer < std::ssize(layers) && head >= 0 && head < layers.front().heads,
                    "language_model", "there is no head {}.{}; the layers are 0 to {}, the heads 0 to {}", layer, head,
                    layers.size() - 1, layers.front().heads - 1);
      last_weights_[static_cast<std::size_t>(layer)].heads.push_back(head);
    }
  }

  // Of the rows that `ends` says, in their order of those that the pass read.
  void give_weights(const std::vector<std::int64_t>& read, const std::function<bool(std::size_t)>& ends) const {
    for (std::size_t i = 0; i < options_.heads.size(); ++i) {
      const LastWeights& own = last_weights_[static_cast<std::size_t>(options_.heads[i].layer)];
      const auto count = std::ssize(own.heads);
      const auto place = std::ranges::find(own.heads, options_.heads[i].head) - own.heads.begin();
      std::int64_t row = 0;
      for (std::size_t r = 0; r < read.size(); ++r) {
        if (read[r] == 0) continue;
        const float* weights = own.weights.data<float>() + (row++ * count + place) * own.weights.size(1);
        if (ends(r)) options_.on_weights(prompt_of_[r], i, {weights, static_cast<std::size_t>(lengths_[r])});
      }
    }
  }

  // A chunk of each prompt that is not read yet. False: there was none.
  bool read_some(Prompts prompts) {
    TokenRows rows;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const auto begin = static_cast<std::size_t>(lengths_[i]);
      const std::int64_t count = next_chunk(std::ssize(prompts[i]) - lengths_[i], options_.chunk);
      rows.add(std::span(prompts[i]).subspan(begin, static_cast<std::size_t>(count)), lengths_[i]);
    }
    if (rows.ids.empty()) return false;
    const Tensor x = model_.embed(rows.ids, rows.positions), offsets = offsets_of(rows.lengths);
    const Tensor hidden = model_.layers_.forward({x, offsets}, cache_, options_.threads, last_weights_);
    std::int64_t end = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      end += rows.lengths[i];
      lengths_[i] += rows.lengths[i];
      const auto row = static_cast<std::int64_t>(i);
      if (rows.lengths[i] > 0) convert(hidden.view().slice(0, end - 1, end), last_.view().slice(0, row, row + 1));
    }
    give_weights(rows.lengths, [&](std::size_t i) { return lengths_[i] == std::ssize(prompts[i]); });
    return true;
  }

  // One token more for each row.
  Tensor read_tokens(std::span<const std::int32_t> tokens) {
    std::vector<std::int32_t> positions;
    for (std::int64_t& length : lengths_) {
      positions.push_back(static_cast<std::int32_t>(length));
      check_length(++length, model_.config_);
    }
    const Tensor x = model_.embed(tokens, positions);
    const Tensor hidden =
        model_.layers_.forward(x.view().reshape({x.size(0), 1, x.size(1)}), cache_, options_.threads, last_weights_);
    give_weights(std::vector<std::int64_t>(tokens.size(), 1), [](std::size_t) { return true; });
    return Tensor::copy(hidden.view().reshape(x.shape()));
  }

  const LanguageModel& model_;
  const PromptOptions options_;
  StackCache cache_;
  Tensor last_;                        // of each prompt the hidden state behind its last token
  std::vector<std::int64_t> lengths_;  // of what each row has read
  std::vector<std::size_t> prompt_of_;
  std::vector<LastWeights> last_weights_;  // of each layer; none: not asked for
  bool is_first_ = true;
  Tensor logits_;
};

std::unique_ptr<NextTokens> LanguageModel::next_tokens(Prompts prompts, const PromptOptions& options) const {
  return std::make_unique<Continuation>(*this, prompts, options);
}

void LanguageModel::visit(const ParameterVisitor& visitor) const {
  embeddings_.visit(visitor, kEmbeddingScope);
  if (positions_) positions_->visit(visitor, kPositionScope);
  layers_.visit(visitor);
  if (output_) output_->visit(visitor, kOutputScope);
}

void LanguageModel::update(const ParameterUpdater& updater) {
  embeddings_.update(updater, kEmbeddingScope);
  if (positions_) positions_->update(updater, kPositionScope);
  layers_.update(updater);
  if (output_) output_->update(updater, kOutputScope);
}

}  // namespace qkv
