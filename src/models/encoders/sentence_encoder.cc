// SentenceEncoder: pooling, the loss over the pairs of a batch, and its gradients chunk by chunk.
#include "qkv/models/sentence_encoder.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/refuse.h"
#include "layers/basic/rows.h"
#include "models/encoders/pooled_rows.h"
#include "models/encoders/text_encoder_folder.h"
#include "qkv/layers/cross_entropy.h"

namespace qkv {
namespace {

constexpr const char* kSentences = "sentence_encoder";

// Sequences begin <= b < end.
TokenBatch part_of(const TokenBatch& all, std::int64_t begin, std::int64_t end) {
  const std::int32_t* offsets = all.offsets.data<std::int32_t>();
  std::vector<std::int64_t> lengths;
  for (std::int64_t b = begin; b < end; ++b) lengths.push_back(offsets[b + 1] - offsets[b]);
  return {{all.ids.begin() + offsets[begin], all.ids.begin() + offsets[end]},
          {all.types.begin() + offsets[begin], all.types.begin() + offsets[end]},
          offsets_of(lengths)};
}

double length_of(const float* row, std::int64_t dim) {
  double squares = 0;
  for (std::int64_t e = 0; e < dim; ++e) squares += static_cast<double>(row[e]) * static_cast<double>(row[e]);
  return std::max(std::sqrt(squares), 1e-12);  // as torch.nn.functional.normalize: zeros stay zeros
}

void normalize(Tensor& rows) {
  const std::int64_t dim = rows.size(1);
  for (std::int64_t b = 0; b < rows.size(0); ++b) {
    float* row = rows.data<float>() + b * dim;
    const double length = length_of(row, dim);
    for (std::int64_t e = 0; e < dim; ++e) row[e] = static_cast<float>(static_cast<double>(row[e]) / length);
  }
}

// The gradient of y = x / |x|: dx = (dy - y (y . dy)) / |x|, from x, in place of dy.
void normalize_backward(const Tensor& before, Tensor& grad) {
  const std::int64_t dim = before.size(1);
  for (std::int64_t b = 0; b < before.size(0); ++b) {
    const float* x = before.data<float>() + b * dim;
    float* dy = grad.data<float>() + b * dim;
    const double length = length_of(x, dim);
    double along = 0;
    for (std::int64_t e = 0; e < dim; ++e) along += static_cast<double>(x[e]) / length * static_cast<double>(dy[e]);
    for (std::int64_t e = 0; e < dim; ++e) {
      dy[e] = static_cast<float>((static_cast<double>(dy[e]) - static_cast<double>(x[e]) / length * along) / length);
    }
  }
}

// The loss of vectors of length 1, and where they are given the gradients of both sides, which are added to.
LossSum loss_of(const Tensor& first, const Tensor& second, const SentenceTrainingOptions& options,
                Tensor* grad_first = nullptr, Tensor* grad_second = nullptr) {
  refuse_unless(first.shape() == second.shape(), kSentences, "{} texts for {} partners", first.size(0), second.size(0));
  refuse_unless(options.temperature > 0, kSentences, "the temperature is {}; it must be above 0", options.temperature);
  const double scale = 1 / options.temperature;
  Tensor scaled = Tensor::copy(first);
  scale_rows(scaled, scale);
  std::vector<std::int32_t> partners;
  for (std::int64_t b = 0; b < first.size(0); ++b) partners.push_back(static_cast<std::int32_t>(b));
  CrossEntropyGradients wanted;
  if (grad_first != nullptr) {
    wanted.hidden = *grad_first;
    wanted.weight = *grad_second;
  }
  LossSum sum = cross_entropy({.weight = second}, scaled, partners, {.smoothing = options.label_smoothing}, wanted);
  if (grad_first != nullptr) scale_rows(*grad_first, scale);
  Tensor logits = Tensor::uninitialized({first.size(0), first.size(0)});
  matmul(scaled, PackedMatrix(second.view().transpose(0, 1)), logits);
  sum.metric = count_right(logits, partners);
  return sum;
}

}  // namespace

SentenceEncoder::SentenceEncoder(TextEncoder encoder, SentencePooling pooling)
    : encoder_(std::move(encoder)), pooling_(pooling) {}

Tensor SentenceEncoder::embed(const TokenBatch& texts) const {
  Tensor vectors = pooled_rows(encoder_.forward(texts), texts.offsets, pooling_, kSentences);
  normalize(vectors);
  return vectors;
}

LossSum SentenceEncoder::loss(const SentencePairs& batch, const SentenceTrainingOptions& options) const {
  return loss_of(embed(batch.first), embed(batch.second), {.temperature = options.temperature});
}

LossSum SentenceEncoder::backward(const SentencePairs& batch, const SentenceTrainingOptions& options) {
  refuse_unless(options.chunk >= 0, kSentences, "chunks are of {} texts; at least 0 is needed", options.chunk);
  struct Chunk {
    TokenBatch texts;
    std::int64_t begin, end;  // rows of the vectors of its side
    bool is_first;
    Dropout dropout;
    Tensor before;  // vectors before they have length 1
  };
  const Dropout all{.p = options.dropout, .seed = options.seed};
  std::vector<Chunk> chunks;
  for (const TokenBatch* side : {&batch.first, &batch.second}) {
    const std::int64_t count = side->batch(), size = options.chunk == 0 ? count : options.chunk;
    for (std::int64_t begin = 0; begin < count; begin += size) {
      const std::int64_t end = std::min(begin + size, count);
      const auto number = static_cast<std::uint32_t>(chunks.size());
      chunks.push_back({part_of(*side, begin, end), begin, end, side == &batch.first, dropout_at(all, number), {}});
    }
  }
  TextEncoderSaved saved;
  std::vector<Tensor> firsts, seconds;
  for (Chunk& chunk : chunks) {
    chunk.before =
        pooled_rows(encoder_.forward(chunk.texts, chunk.dropout, saved), chunk.texts.offsets, pooling_, kSentences);
    Tensor vectors = Tensor::copy(chunk.before);
    normalize(vectors);
    (chunk.is_first ? firsts : seconds).push_back(std::move(vectors));
  }
  const Tensor first = stack_rows(std::move(firsts)), second = stack_rows(std::move(seconds));
  Tensor grad_first = Tensor::zeros(first.shape()), grad_second = Tensor::zeros(second.shape());
  const LossSum sum = loss_of(first, second, options, &grad_first, &grad_second);
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {  // what the last one kept is there
    if (chunk != chunks.rbegin()) encoder_.forward(chunk->texts, chunk->dropout, saved);
    const Tensor& grad_all = chunk->is_first ? grad_first : grad_second;
    Tensor grad = Tensor::copy(grad_all.view().slice(0, chunk->begin, chunk->end));
    normalize_backward(chunk->before, grad);
    encoder_.backward(chunk->texts, chunk->dropout, saved, pooled_rows_backward(grad, chunk->texts.offsets, pooling_));
  }
  return sum;
}

void SentenceEncoder::save(const std::string& folder, const std::string& from, std::int64_t max_length,
                           Dtype dtype) const {
  write_sentence_folder(folder, from, *this, pooling_, max_length, dtype);
}

}  // namespace qkv
