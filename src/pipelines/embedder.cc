// Embedder: tokenizes texts, runs the encoder in batches and pools its output.
#include "qkv/pipelines/embedder.h"

#include <algorithm>
#include <cmath>

#include "core/refuse.h"
#include "pipelines/pipeline_folder.h"
#include "pipelines/text_batches.h"
#include "qkv/stop.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

// out = one row of the hidden states [count, dim] of a text without its first `left_out`; zeros if there are none. Of a
// text that has no others the first token stays the first one, as in sentence-transformers.
void pool_rows(Pooling pooling, const TensorView& rows, std::int64_t left_out, float* out) {
  const std::int64_t length = rows.size(0), dim = rows.size(1);
  const bool is_cls = pooling == Pooling::cls;
  const std::int64_t first = left_out < length ? left_out : is_cls ? 0 : length;
  const std::int64_t count = is_cls ? std::min<std::int64_t>(1, length) : length - first;
  const float* row = rows.data<float>() + first * dim;
  std::fill_n(out, dim, 0.0f);
  for (std::int64_t i = 0; i < count; ++i, row += dim) {
    for (std::int64_t e = 0; e < dim; ++e) out[e] += row[e];
  }
  for (std::int64_t e = 0; e < dim && count > 0; ++e) out[e] /= static_cast<float>(count);
}

void normalize_row(float* row, std::int64_t dim) {
  double squares = 0;
  for (std::int64_t e = 0; e < dim; ++e) squares += static_cast<double>(row[e]) * row[e];
  const double length = std::max(std::sqrt(squares), 1e-12);  // as torch.nn.functional.normalize: zeros stay zeros
  for (std::int64_t e = 0; e < dim; ++e) row[e] = static_cast<float>(row[e] / length);
}

}  // namespace

Embedder::Embedder(Tokenizer tokenizer, TextEncoder model, std::size_t max_length, const SentenceFolder& steps)
    : tokenizer_(std::move(tokenizer)),
      model_(std::move(model)),
      max_length_(max_length),
      pooling_(steps.pooling),
      normalize_(steps.normalize),
      include_prompt_(steps.include_prompt),
      prompt_(steps.prompt) {}

Embedder Embedder::load(const std::string& folder, WeightStorage storage) {
  const TextEncoderConfig config = TextEncoder::check(folder);
  const SentenceFolder sentence = read_sentence_folder(folder, config.model_dim);
  Tokenizer tokenizer = Tokenizer::load(folder + "/tokenizer.json", config.vocab);
  return Embedder(std::move(tokenizer), TextEncoder::load(folder, storage),
                  tokens_read(sentence.max_length, config.positions), sentence);
}

// As sentence-transformers counts them: those of the prompt as a text, without a special one at its end.
std::int64_t Embedder::tokens_left_out(const std::string& prompt, std::size_t max_length) const {
  if (include_prompt_ || prompt.empty()) return 0;
  const std::vector<std::string> tokens = tokenizer_.encode(prompt, {.max_length = max_length}).tokens,
                                 special = tokenizer_.special_tokens();
  const bool ends_in_special =
      !tokens.empty() && std::find(special.begin(), special.end(), tokens.back()) != special.end();
  return std::ssize(tokens) - (ends_in_special ? 1 : 0);
}

Tensor Embedder::embed(std::span<const std::string> texts, const EmbedOptions& options) const {
  const StopScope stop(options.stop);
  const auto count = static_cast<std::int64_t>(texts.size());
  if (static_cast<std::int64_t>(options.max_length) > model_.config().positions) {
    refuse("embed", "max_length is {}, and the model has {} positions", options.max_length, model_.config().positions);
  }
  const std::size_t max_length = options.max_length > 0 ? options.max_length : max_length_;
  const std::string& prompt = options.prompt ? *options.prompt : prompt_;
  const std::vector<Encoding> encodings =
      encode_texts("embed", tokenizer_, texts, {max_length, options.threads, options.cut, prompt});
  const std::int64_t left_out = tokens_left_out(prompt, max_length);
  Tensor out = Tensor::uninitialized({count, dim()});
  for_each_text_batch(encodings, options.threads, [&](const TokenBatch& batch, std::size_t first) {
    const Tensor hidden = model_.forward(batch, {.threads = options.threads});
    const std::int32_t* const offsets = batch.offsets.data<std::int32_t>();
    float* embedding = out.data<float>() + static_cast<std::int64_t>(first) * dim();
    for (std::int64_t b = 0; b < batch.batch(); ++b, embedding += dim()) {
      pool_rows(pooling_, hidden.view().slice(0, offsets[b], offsets[b + 1]), left_out, embedding);
      if (normalize_) normalize_row(embedding, dim());
    }
  });
  return out;
}

}  // namespace qkv
