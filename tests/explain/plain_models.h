// Models in plain double loops, with keys and heads left out and weights changed, for the tests of measures.
#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "layers/stack/layer_reference.h"
#include "qkv/explain/translated_text.h"
#include "qkv/models/bert.h"
#include "qkv/models/marian.h"

namespace qkv::test {

using Rows = testing::ReferenceLayer::Rows;

struct PlainChanges {
  LeftOut left_out{};
  // What is added to one weight.
  struct Added {
    HeadIndex head;
    std::size_t query = 0, key = 0;
    double value = 0;
  };
  std::optional<Added> added{};

  // For a layer of the attentions `self` and `memory`.
  testing::ReferenceChanges of(std::int64_t layer, std::size_t self, std::size_t memory) const {
    const auto index_of = [=](const std::string& scope, std::int64_t head) {
      return HeadIndex{layer, head, scope == "self_attn." ? self : memory};
    };
    return {.hidden =
                [this, index_of](const std::string& scope, std::int64_t head, std::size_t key) {
                  const HeadIndex own = index_of(scope, head);
                  const auto is_it = [&](const KeyIndex& one) {
                    return one.site == own.site && one.key == static_cast<std::int64_t>(key);
                  };
                  return std::ranges::any_of(left_out.keys, is_it) || std::ranges::count(left_out.heads, own) > 0;
                },
            .added =
                [this, index_of](const std::string& scope, std::int64_t head, std::size_t query, std::size_t key) {
                  const bool is_it = added && added->head == index_of(scope, head) && added->query == query;
                  return is_it && added->key == key ? added->value : 0;
                }};
  }
};

// What a run sends under this name, as f64.
struct RowsSeen : Observer {
  RowsSeen(const Explainable& input, std::string name) : wanted(std::move(name)) { input.run(*this); }
  void receive(std::string_view name, const TensorView& value) override {
    if (name != wanted) return;
    const Tensor exact = convert(value, Dtype::f64);
    for (std::int64_t i = 0; i < exact.size(0); ++i) {
      rows.emplace_back(exact.data<double>() + i * exact.size(1), exact.data<double>() + (i + 1) * exact.size(1));
    }
  }
  std::string wanted;
  Rows rows{};
};

// The parameters of a model whose names begin so, as f64, under the rest of their names.
template <class Model>
std::map<std::string, Tensor> plain_tensors(const Model& model, const std::string& scope = "") {
  std::map<std::string, Tensor> all;
  model.visit([&](const std::string& name, const Parameter& own) {
    if (name.starts_with(scope)) all[name.substr(scope.size())] = convert(own.value, Dtype::f64);
  });
  return all;
}

// The layers of a post-norm stack, without a final norm.
class PlainStack {
 public:
  template <class Model>
  PlainStack(const TransformerLayerConfig& config, std::int64_t layers, const Model& model, const std::string& scope)
      : config_(config) {
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      tensors_.push_back(plain_tensors(model, scope + "layers." + std::to_string(layer) + "."));
    }
  }

  // `self` and `memory`: the numbers of its attentions.
  Rows run(Rows x, const Rows& memory_rows, bool causal, const PlainChanges& changes, std::size_t self,
           std::size_t memory) const {
    for (std::size_t layer = 0; layer < tensors_.size(); ++layer) {
      const auto own = changes.of(static_cast<std::int64_t>(layer), self, memory);
      x = testing::ReferenceLayer(config_, tensors_[layer], own).forward(x, memory_rows, causal);
    }
    return x;
  }

 private:
  TransformerLayerConfig config_;
  std::vector<std::map<std::string, Tensor>> tensors_{};
};

// From the embeddings of the model's run on.
class PlainBert {
 public:
  PlainBert(const Bert& model, const Explainable& input)
      : stack_({.model_dim = model.config().model_dim,
                .heads = model.config().heads,
                .ff_dim = model.config().ff_dim,
                .activation = model.config().activation,
                .epsilon = model.config().epsilon},
               model.config().layers, model, ""),
        embeddings_(RowsSeen(input, "embeddings").rows) {}

  Rows outputs(const PlainChanges& changes) const { return stack_.run(embeddings_, {}, false, changes, 0, 0); }

 private:
  PlainStack stack_;
  Rows embeddings_;
};

class PlainMarian {
 public:
  PlainMarian(const Marian& model, const TranslatedText& input)
      : encoder_(layer_of(model.config(), model.config().encoder_heads, model.config().encoder_ff_dim),
                 model.config().encoder_layers, model, "encoder."),
        decoder_(layer_of(model.config(), model.config().decoder_heads, model.config().decoder_ff_dim),
                 model.config().decoder_layers, model, "decoder."),
        source_(RowsSeen(input, "encoder.embeddings").rows),
        read_(RowsSeen(input, "decoder.embeddings").rows),
        table_(plain_tensors(model).at("shared.weight")),
        bias_(plain_tensors(model).at("final_logits_bias")),
        written_(input.attentions().alignment->written) {}

  std::vector<double> log_probabilities(const PlainChanges& changes) const {
    const Rows memory = encoder_.run(source_, {}, false, changes, 0, 0);
    const Rows hidden = decoder_.run(read_, memory, true, changes, 1, 2);
    std::vector<double> found;
    for (std::size_t t = 0; t < written_.size(); ++t) {
      double sum = 0, own = 0;
      for (std::int64_t c = 0; c < table_.size(0); ++c) {
        double logit = bias_.data<double>()[c];
        for (std::int64_t e = 0; e < table_.size(1); ++e) {
          logit += hidden[t][static_cast<std::size_t>(e)] * table_.data<double>()[c * table_.size(1) + e];
        }
        sum += std::exp(logit);
        if (c == written_[t].id) own = logit;
      }
      found.push_back(own - std::log(sum));
    }
    return found;
  }

 private:
  static TransformerLayerConfig layer_of(const MarianConfig& config, std::int64_t heads, std::int64_t ff_dim) {
    return {.model_dim = config.model_dim, .heads = heads, .ff_dim = ff_dim, .activation = config.activation};
  }

  PlainStack encoder_, decoder_;
  Rows source_, read_;
  Tensor table_, bias_;
  std::vector<WrittenToken> written_;
};

}  // namespace qkv::test
