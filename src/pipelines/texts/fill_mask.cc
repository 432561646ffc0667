// FillMask: the logits of a text's masked words, sorted.
#include "qkv/pipelines/fill_mask.h"

#include "core/refuse.h"
#include "pipelines/classes.h"
#include "pipelines/text_batches.h"
#include "qkv/error.h"

namespace qkv {

FillMask::FillMask(TextPipeline opened, std::string mask) : TextPipeline(std::move(opened)), mask_(std::move(mask)) {
  for (std::int32_t id = 0; id < model().config().outputs; ++id) {
    words_.push_back(tokenizer().contains(id) ? tokenizer().decode(std::vector{id}, {.skip_special_tokens = false})
                                              : "");
  }
}

FillMask FillMask::load(const std::string& folder, WeightStorage storage) {
  TextPipeline opened = TextPipeline::load(folder, TextTask::masked_word, storage);
  std::string mask = mask_of(opened.tokenizer());
  if (!mask.empty()) return FillMask(std::move(opened), std::move(mask));
  throw FormatError(folder + "/tokenizer.json: added_tokens must have a special token \"[MASK]\" or \"<mask>\"");
}

std::vector<std::vector<ClassProbability>> FillMask::fill(const std::string& text, std::int64_t top,
                                                          const TextEncoderOptions& options) const {
  refuse_unless(top >= 1, "fill", "top is {}, at least 1 is needed", top);
  const Encoding encoding = tokenizer().encode(text);
  const std::int64_t count = std::ssize(encoding.ids), positions = model().encoder().config().positions;
  refuse_unless(count <= positions, "fill", "the text has {} tokens, the model reads at most {}", count, positions);
  const std::int32_t mask = *tokenizer().id_of(mask_);
  std::vector<std::int64_t> masked;
  for (std::int64_t i = 0; i < count; ++i) {
    if (encoding.ids[static_cast<std::size_t>(i)] == mask) masked.push_back(i);
  }
  refuse_unless(!masked.empty(), "fill", "the text has no {}", mask_);
  const Tensor logits =
      model().logits_of(masked, {encoding.ids, encoding.type_ids, offsets_of(std::vector{count})}, options);
  std::vector<std::vector<ClassProbability>> found;
  for (std::int64_t i = 0; i < std::ssize(masked); ++i) {
    const float* const row = logits.data<float>() + i * logits.size(1);
    found.push_back(most_probable({row, words_.size()}, words_, top));
  }
  return found;
}

}  // namespace qkv
