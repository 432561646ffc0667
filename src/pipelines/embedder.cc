#include "qkv/embedder.h"

#include <algorithm>
#include <cmath>

#include "pipelines/sentence_folder.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

// Tokens that pass through the model together: enough rows for the products to run at full speed, few enough for what
// lies between layers to stay in the cache. Each thread has its own batch.
constexpr std::size_t kBatchTokens = 512;

void append(TokenBatch& batch, const Encoding& encoding) {
  batch.ids.insert(batch.ids.end(), encoding.ids.begin(), encoding.ids.end());
  batch.types.insert(batch.types.end(), encoding.type_ids.begin(), encoding.type_ids.end());
}

// out = the mean of rows [count, dim], in their order.
void mean_rows(const TensorView& rows, float* out) {
  const std::int64_t count = rows.size(0), dim = rows.size(1);
  const float* row = rows.data<float>();
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

Embedder::Embedder(Tokenizer tokenizer, Bert model, std::size_t max_length, bool normalize)
    : tokenizer_(std::move(tokenizer)), model_(std::move(model)), max_length_(max_length), normalize_(normalize) {}

Embedder Embedder::load(const std::string& folder) {
  Bert model = Bert::load(folder);
  const BertConfig& config = model.config();
  const SentenceFolder sentence = read_sentence_folder(folder, config.model_dim);
  const std::int64_t length =
      sentence.max_length > 0 ? std::min(sentence.max_length, config.positions) : config.positions;
  Tokenizer tokenizer = Tokenizer::load(folder + "/tokenizer.json", config.vocab);
  return Embedder(std::move(tokenizer), std::move(model), static_cast<std::size_t>(length), sentence.normalize);
}

Tensor Embedder::embed(std::span<const std::string> texts, const EmbedOptions& options) const {
  const auto count = static_cast<std::int64_t>(texts.size());
  std::vector<Encoding> encodings(texts.size());
  parallel_for(count, options.threads, [&](std::int64_t i, int) {
    const auto at = static_cast<std::size_t>(i);
    encodings[at] = tokenizer_.encode(texts[at], {.max_length = max_length_});
  });
  // Batches of whole texts, in order: [starts[n], starts[n + 1]).
  std::vector<std::size_t> starts{0};
  for (std::size_t i = 0, tokens = 0; i < texts.size(); ++i) {
    tokens += encodings[i].ids.size();
    if (tokens > kBatchTokens && i > starts.back()) {
      starts.push_back(i);
      tokens = encodings[i].ids.size();
    }
  }
  starts.push_back(texts.size());

  Tensor out = Tensor::uninitialized({count, dim()});
  parallel_for(static_cast<std::int64_t>(starts.size()) - 1, options.threads, [&](std::int64_t n, int) {
    const std::size_t begin = starts[static_cast<std::size_t>(n)], end = starts[static_cast<std::size_t>(n) + 1];
    TokenBatch batch;
    std::vector<std::int64_t> lengths;
    for (std::size_t i = begin; i < end; ++i) {
      append(batch, encodings[i]);
      lengths.push_back(static_cast<std::int64_t>(encodings[i].ids.size()));
    }
    batch.offsets = offsets_of(lengths);
    const Tensor hidden = model_.forward(batch, {.threads = options.threads, .stop = options.stop});
    std::int64_t row = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const std::int64_t length = lengths[i - begin];
      float* embedding = out.data<float>() + static_cast<std::int64_t>(i) * dim();
      mean_rows(hidden.view().slice(0, row, row + length), embedding);
      if (normalize_) normalize_row(embedding, dim());
      row += length;
    }
  });
  return out;
}

}  // namespace qkv
