// Marian's decoder as generate() uses it: one more token for every row.
#include <stdexcept>

#include "qkv/models/marian.h"

namespace qkv {

class Marian::Targets final : public NextTokens {
 public:
  Targets(const Marian& model, const Sequences& memory, const MarianOptions& options)
      : model_(model), options_(options), cache_(model.decoder_.make_cache(memory, options.threads)) {}

  std::int64_t vocab() const override { return model_.config_.output_vocab(); }

  MutableTensorView step(std::span<const std::int64_t> parents, std::span<const std::int32_t> tokens) override {
    cache_.reorder(parents);
    const auto rows = static_cast<std::int64_t>(tokens.size());
    const std::vector<std::int32_t> positions(tokens.size(), position_++);
    const Tensor x = model_.embed(model_.target_, tokens, positions);
    const Tensor hidden =
        model_.decoder_.forward(x.view().reshape({rows, 1, model_.config_.model_dim}), cache_, options_.threads);
    logits_ = Tensor::uninitialized({rows, vocab()}, hidden.dtype());
    matmul(hidden.view().reshape(x.shape()), model_.table_of(model_.target_).projection(), logits_,
           {.bias = model_.logits_bias_.value, .threads = options_.threads});
    return logits_;
  }

 private:
  const Marian& model_;
  const MarianOptions options_;
  DecoderCache cache_;
  std::int32_t position_ = 0;
  Tensor logits_;
};

std::unique_ptr<NextTokens> Marian::targets(std::span<const std::int32_t> ids, const Tensor& offsets,
                                            const MarianOptions& options) const {
  const Tensor memory = encode(ids, offsets, options);
  return std::make_unique<Targets>(*this, Sequences(memory, offsets), options);
}

}  // namespace qkv
