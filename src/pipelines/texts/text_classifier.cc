// TextClassifier: tokenizes a text, runs the model, and sorts its classes.
#include "qkv/pipelines/text_classifier.h"

#include "core/refuse.h"
#include "pipelines/classes.h"
#include "pipelines/text_batches.h"
#include "qkv/stop.h"
#include "qkv/threads.h"

namespace qkv {

TextClassifier TextClassifier::load(const std::string& folder, WeightStorage storage) {
  return TextClassifier(TextPipeline::load(folder, TextTask::sequence_class, storage));
}

std::vector<ClassProbability> TextClassifier::classify(const std::string& text, std::int64_t top,
                                                       const TextEncoderOptions& options) const {
  return classify(std::span(&text, 1), top, options)[0];
}

std::vector<std::vector<ClassProbability>> TextClassifier::classify(std::span<const std::string> texts,
                                                                    std::int64_t top,
                                                                    const TextEncoderOptions& options) const {
  std::vector<TextOrPair> all;
  for (const std::string& text : texts) all.push_back({text});
  return classify(std::span<const TextOrPair>(all), top, options);
}

Encoding TextClassifier::encode(const TextOrPair& text, std::int64_t* cut) const {
  const auto encoded = [&](std::size_t length) {
    return text.second ? tokenizer().encode_pair(text.text, *text.second, length)
                       : tokenizer().encode(text.text, {.max_length = length});
  };
  if (cut == nullptr) return encoded(max_length());
  Encoding found = encoded(0);
  const std::int64_t longer = std::ssize(found.ids) - static_cast<std::int64_t>(max_length());
  if (longer > 0) found = encoded(max_length());
  *cut = std::max<std::int64_t>(longer, 0);
  return found;
}

std::vector<std::vector<ClassProbability>> TextClassifier::classify(std::span<const TextOrPair> texts, std::int64_t top,
                                                                    const TextEncoderOptions& options) const {
  const StopScope stop(options.stop);
  refuse_unless(top >= 1, "text_classifier", "top is {}, at least 1 is needed", top);
  std::vector<Encoding> encodings(texts.size());
  parallel_for(std::ssize(texts), options.threads, [&](std::int64_t i, int) {
    encodings[static_cast<std::size_t>(i)] = encode(texts[static_cast<std::size_t>(i)]);
  });
  std::vector<std::vector<ClassProbability>> found(texts.size());
  for_each_text_batch(encodings, options.threads, [&](const TokenBatch& batch, std::size_t first) {
    const Tensor logits = model().logits(batch, {.threads = options.threads});
    const auto labels = static_cast<std::size_t>(logits.size(1));
    for (std::int64_t b = 0; b < batch.batch(); ++b) {
      const float* const row = logits.data<float>() + b * logits.size(1);
      found[first + static_cast<std::size_t>(b)] = most_probable({row, labels}, model().config().labels, top, scores());
    }
  });
  return found;
}

}  // namespace qkv
