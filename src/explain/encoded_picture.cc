// Lists the attentions of a Vision Transformer over a picture.
#include "qkv/explain/encoded_picture.h"

#include <fmt/format.h>

#include "explain/encoder_attentions.h"
#include "explain/require.h"

namespace qkv {

EncodedPicture::EncodedPicture(const Vit& model, Tensor pixels, const VitOptions& options, LeftOut left_out)
    : model_(model), pixels_(std::move(pixels)), options_(options) {
  require(pixels_.rank() == 3, "the picture must be [height, width, channels], got {}", to_string(pixels_.shape()));
  grid_ = model.grid_of({pixels_.size(0), pixels_.size(1)});
  AttentionSequence tokens{.name = "tokens", .tokens = {"class"}, .special = {1}};
  for (std::int64_t y = 0; y < grid_.height; ++y) {
    for (std::int64_t x = 0; x < grid_.width; ++x) tokens.tokens.push_back(fmt::format("{},{}", y, x));
  }
  tokens.special.resize(tokens.tokens.size());
  attentions_ = encoder_attentions(model.config(), std::move(tokens), std::move(left_out));
}

Tensor EncodedPicture::forward(const LeftOut& more, Observer* observer) const {
  const LeftOutMasks masks(attentions_, more);
  VitOptions options = options_;
  options.masks = masks.of(0);
  return model_.forward(pixels_.view().reshape({1, pixels_.size(0), pixels_.size(1), pixels_.size(2)}), options,
                        observer);
}

Outcome EncodedPicture::outcome(const LeftOut& more) const {
  const Tensor hidden = forward(more, nullptr);
  return {.outputs = Tensor::copy(hidden.view().select(0, 0))};
}

}  // namespace qkv
