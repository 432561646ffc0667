// Embedder: tokenizes texts, runs the encoder in batches, and makes embeddings of its output.
#include "qkv/pipelines/embedder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "models/folder_tensors.h"
#include "pipelines/pipeline_folder.h"
#include "pipelines/text_batches.h"
#include "qkv/error.h"
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

// log(1 + relu(x)); of small numbers by its series, since 1 + x would lose their digits.
double log_of_relu(double x) {
  if (x <= 0) return 0;
  constexpr double kSmall = 1e-5;
  return x < kSmall ? x - x * x / 2 : log(1 + x);
}

// Leaves the `most` largest numbers, of equal ones the first; the others become 0.
void keep_largest(std::int64_t most, std::span<float> row) {
  if (most >= std::ssize(row)) return;
  std::vector<std::size_t> order(row.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto is_before = [&](std::size_t a, std::size_t b) { return row[a] > row[b] || (row[a] == row[b] && a < b); };
  std::nth_element(order.begin(), order.begin() + most, order.end(), is_before);
  for (std::size_t i = static_cast<std::size_t>(most); i < order.size(); ++i) row[order[i]] = 0;
}

// Put before a text: the marker of its role replaces this token.
constexpr const char* kMarked = ". ";

// Reads linear.weight and linear.bias from the folder of a Dense module.
Linear read_projection(const std::string& folder, const LinearConfig& config, WeightStorage storage) {
  FolderTensors tensors(folder);
  tensors.pass_over([](std::string_view name) { return name.starts_with("bert."); });  // next to ColBERT's own
  TensorNames names("");
  names.add("weight", {config.out, config.in}, {"linear.weight"});
  if (config.bias) names.add("bias", {config.out}, {"linear.bias"});
  tensors.expect(names.all());
  Weights weights = tensors.weights(storage);
  return Linear(config, weights);
}

}  // namespace

Embedder::Embedder(const std::string& folder, Tokenizer tokenizer, Model model, SentenceFolder steps)
    : tokenizer_(std::move(tokenizer)),
      model_(std::move(model)),
      steps_(std::make_shared<const SentenceFolder>(std::move(steps))),
      max_length_(tokens_read(steps_->max_length, this->model().config().positions)) {
  for (const std::string& word : steps_->skipped) {
    if (const auto id = tokenizer_.id_of(word)) skipped_.push_back(*id);
  }
  for (const auto& [role, word] : steps_->markers) {
    const auto id = tokenizer_.id_of(word);
    // It takes the place of a token behind the first one.
    const std::size_t tokens = tokenizer_.encode(kMarked).ids.size();
    if (id && tokens == tokenizer_.encode("").ids.size() + 1 && tokens > 2) {
      markers_[role] = *id;
    } else {
      throw FormatError(fmt::format(
          "{}/artifact.metadata: {} must be one token that tokenizer.json allows after the first", folder, word));
    }
  }
  if (!steps_->expansion) return;
  const auto& [length, cuts, attended, token] = *steps_->expansion;
  const std::string filler = token.empty() ? mask_of(tokenizer_) : token;
  const auto id = tokenizer_.id_of(filler);
  const std::int64_t positions = this->model().config().positions;
  const auto fail = [&](const std::string& what) {
    const char* const file =
        steps_->markers.empty() ? "sentence_bert_config.json: query_expansion." : "artifact.metadata: for queries, ";
    throw FormatError(folder + "/" + file + what);
  };
  if (!id) fail(fmt::format("token must be in the tokenizer, which has no {}", filler.empty() ? "mask" : filler));
  if (length > positions) fail(fmt::format("length is {}, but the model has {} positions", length, positions));
  filler_ = *id;
}

Embedder Embedder::load(const std::string& folder, WeightStorage storage) {
  const TextEncoderConfig config = TextEncoder::read_config(folder);
  SentenceFolder steps = read_sentence_folder(folder, config.model_dim);
  const bool is_sparse = steps.kind == EmbeddingKind::sparse;
  if (is_sparse) {
    TextModel::check(folder, TextTask::masked_word);
  } else {
    TextEncoder::check(folder);
  }
  Tokenizer tokenizer = Tokenizer::load(folder + "/tokenizer.json", config.vocab);
  Model model = is_sparse ? Model(TextModel::load(folder, TextTask::masked_word, storage))
                          : Model(TextEncoder::load(folder, storage));
  const std::string projection = steps.projection;
  const LinearConfig projected = steps.projected;
  Embedder embedder(folder, std::move(tokenizer), std::move(model), std::move(steps));
  if (!projection.empty()) embedder.projection_ = read_projection(projection, projected, storage);
  return embedder;
}

EmbeddingKind Embedder::kind() const { return steps_->kind; }

const std::map<std::string, std::string>& Embedder::prompts() const { return steps_->prompts; }

const TextEncoder& Embedder::model() const {
  const auto* encoder = std::get_if<TextEncoder>(&model_);
  return encoder != nullptr ? *encoder : std::get<TextModel>(model_).encoder();
}

void Embedder::visit(const ParameterVisitor& visitor) const {
  std::visit([&](const auto& model) { model.visit(visitor); }, model_);
  if (projection_) projection_->visit(visitor, "projection.");
}

std::int64_t Embedder::dim(const EmbedOptions& options) const {
  if (kind() == EmbeddingKind::sparse) return std::get<TextModel>(model_).config().outputs;
  if (projection_) return steps_->projected.out;
  const std::int64_t whole = model().config().model_dim;
  const std::int64_t left = options.dimensions > 0 ? static_cast<std::int64_t>(options.dimensions) : steps_->dimensions;
  return left > 0 && kind() == EmbeddingKind::vector ? std::min(left, whole) : whole;
}

const std::string& Embedder::prompt_of(const EmbedOptions& options) const {
  return options.prompt ? *options.prompt : steps_->prompt;
}

std::size_t Embedder::max_length(const EmbedOptions& options) const {
  const std::int64_t positions = model().config().positions;
  refuse_unless(static_cast<std::int64_t>(options.max_length) <= positions, "embed",
                "max_length is {}, but the model has {} positions", options.max_length, positions);
  const bool is_expanded = options.role == TextRole::query && steps_->expansion;
  if (is_expanded && steps_->expansion->cuts) return static_cast<std::size_t>(steps_->expansion->length);
  if (options.max_length > 0) return options.max_length;
  const auto own = steps_->lengths.find(options.role);
  if (own == steps_->lengths.end()) return max_length_;
  return tokens_read(is_expanded ? std::max(own->second, steps_->expansion->length) : own->second, positions);
}

// As sentence-transformers counts them: the tokens of the prompt alone, without a special one at its end.
std::int64_t Embedder::tokens_left_out(const std::string& prompt, std::size_t max_length) const {
  if (steps_->include_prompt || prompt.empty()) return 0;
  const std::vector<std::string> tokens = tokenizer_.encode(prompt, {.max_length = max_length}).tokens,
                                 special = tokenizer_.special_tokens();
  const bool ends_in_special =
      !tokens.empty() && std::find(special.begin(), special.end(), tokens.back()) != special.end();
  return std::ssize(tokens) - (ends_in_special ? 1 : 0);
}

// A short query's ids go on behind its tokens.
std::vector<Encoding> Embedder::encode(std::span<const std::string> texts, const EmbedOptions& options) const {
  refuse_unless(!options.normalize || kind() == EmbeddingKind::vector, "embed",
                "normalize needs a model with one vector per text");
  const auto marker = markers_.find(options.role);
  const bool is_marked = marker != markers_.end();
  const std::string prompt = (is_marked ? kMarked : "") + prompt_of(options);
  std::vector<Encoding> encodings =
      encode_texts("embed", tokenizer_, texts, {max_length(options), options.threads, options.cut, prompt});
  for (Encoding& encoding : encodings) {
    if (is_marked && encoding.ids.size() > 1) encoding.ids[1] = marker->second;
  }
  if (options.role != TextRole::query || !steps_->expansion) return encodings;
  for (Encoding& encoding : encodings) {
    const std::size_t length = std::max(encoding.ids.size(), static_cast<std::size_t>(steps_->expansion->length));
    encoding.ids.resize(length, filler_);
    encoding.type_ids.resize(length, 0);
  }
  return encodings;
}

// take(number of the text, its last hidden states [tokens, model_dim]), several at a time.
template <class Take>
void Embedder::for_each_text(std::span<const Encoding> encodings, const EmbedOptions& options, const Take& take) const {
  const bool hides = options.role == TextRole::query && steps_->expansion && !steps_->expansion->attended;
  for_each_text_batch(encodings, options.threads, [&](const TokenBatch& batch, std::size_t first) {
    const std::int64_t count = batch.batch();
    Tensor attended = Tensor::uninitialized({count}, Dtype::i32);
    for (std::int64_t b = 0; b < count; ++b) {
      attended.data<std::int32_t>()[b] =
          static_cast<std::int32_t>(encodings[first + static_cast<std::size_t>(b)].tokens.size());
    }
    const std::vector<Mask> masks(hides ? static_cast<std::size_t>(model().config().layers) : 0,
                                  Mask::lengths(attended));
    const Tensor hidden = model().forward(batch, {.threads = options.threads, .masks = masks});
    const std::int32_t* const offsets = batch.offsets.data<std::int32_t>();
    for (std::int64_t b = 0; b < count; ++b) {
      take(first + static_cast<std::size_t>(b), hidden.view().slice(0, offsets[b], offsets[b + 1]));
    }
  });
}

// The head runs on a few tokens at a time: it has a number for each word of the vocabulary.
void Embedder::sparse_row(const TensorView& hidden, const EmbedOptions& options, float* row) const {
  const std::int64_t words = dim();
  std::fill_n(row, words, 0.0f);
  constexpr std::int64_t kTokens = 32;
  for (std::int64_t begin = 0; begin < hidden.size(0); begin += kTokens) {
    const TensorView few = hidden.slice(0, begin, std::min(begin + kTokens, hidden.size(0)));
    const Tensor logits = std::get<TextModel>(model_).head_of(convert(few, Dtype::f32), options.threads);
    const float* logit = logits.data<float>();
    for (std::int64_t t = 0; t < few.size(0); ++t) {
      for (std::int64_t w = 0; w < words; ++w, ++logit) {
        if (!(*logit <= row[w]) && !std::isnan(row[w])) row[w] = *logit;
      }
    }
  }
  for (std::int64_t w = 0; w < words; ++w) {
    const double once = log_of_relu(row[w]);
    row[w] = static_cast<float>(steps_->log_twice ? log_of_relu(once) : once);
  }
  const std::int64_t most = options.dimensions > 0 ? static_cast<std::int64_t>(options.dimensions) : steps_->dimensions;
  if (most > 0) keep_largest(most, {row, static_cast<std::size_t>(words)});
}

// Vectors of the tokens that are not left out.
Tensor Embedder::token_rows(const Encoding& encoding, const TensorView& hidden, const EmbedOptions& options) const {
  Tensor rows = projection_ ? projection_->forward(hidden, options.threads) : convert(hidden, Dtype::f32);
  const std::string_view role = options.role == TextRole::query ? "query" : "document";
  const bool skips = std::ranges::find(steps_->skipped_in, role) != steps_->skipped_in.end();
  const std::int64_t columns = rows.size(1);
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    if (skips && std::ranges::find(skipped_, encoding.ids[static_cast<std::size_t>(i)]) != skipped_.end()) continue;
    float* const row = rows.data<float>() + kept++ * columns;
    std::copy_n(rows.data<float>() + i * columns, columns, row);
    if (steps_->normalize) normalize_row(row, columns);
  }
  return kept == rows.size(0) ? std::move(rows) : convert(rows.view().slice(0, 0, kept), Dtype::f32);
}

Tensor Embedder::embed(std::span<const std::string> texts, const EmbedOptions& options) const {
  const StopScope stop(options.stop);
  refuse_unless(kind() != EmbeddingKind::tokens, "embed", "the model makes one vector per token, not per text");
  const std::vector<Encoding> encodings = encode(texts, options);
  const std::int64_t columns = dim(options);
  Tensor out = Tensor::uninitialized({std::ssize(texts), columns});
  const auto row_of = [&](std::size_t i) { return out.data<float>() + static_cast<std::int64_t>(i) * columns; };
  if (kind() == EmbeddingKind::sparse) {
    for_each_text(encodings, options,
                  [&](std::size_t i, const TensorView& hidden) { sparse_row(hidden, options, row_of(i)); });
    return out;
  }
  const std::int64_t left_out = tokens_left_out(prompt_of(options), max_length(options));
  for_each_text(encodings, options, [&](std::size_t i, const TensorView& hidden) {
    std::vector<float> whole(static_cast<std::size_t>(hidden.size(1)));
    pool_rows(steps_->pooling, hidden, left_out, whole.data());
    if (steps_->normalize) normalize_row(whole.data(), hidden.size(1));
    std::copy_n(whole.data(), columns, row_of(i));
    const bool has_length_1 = steps_->normalize && columns == hidden.size(1);
    if (options.normalize.value_or(steps_->normalize) && !has_length_1) normalize_row(row_of(i), columns);
  });
  return out;
}

std::vector<SparseEmbedding> Embedder::embed_sparse(std::span<const std::string> texts,
                                                    const EmbedOptions& options) const {
  const StopScope stop(options.stop);
  refuse_unless(kind() == EmbeddingKind::sparse, "embed", "the model's embeddings are not sparse");
  const std::vector<Encoding> encodings = encode(texts, options);
  std::vector<SparseEmbedding> out(texts.size());
  for_each_text(encodings, options, [&](std::size_t i, const TensorView& hidden) {
    std::vector<float> row(static_cast<std::size_t>(dim()));
    sparse_row(hidden, options, row.data());
    for (std::size_t w = 0; w < row.size(); ++w) {
      if (row[w] == 0) continue;
      out[i].words.push_back(static_cast<std::int32_t>(w));
      out[i].weights.push_back(row[w]);
    }
  });
  return out;
}

std::vector<Tensor> Embedder::embed_tokens(std::span<const std::string> texts, const EmbedOptions& options) const {
  const StopScope stop(options.stop);
  refuse_unless(kind() != EmbeddingKind::sparse, "embed", "the model makes no vectors per token");
  refuse_unless(options.dimensions == 0 && !options.normalize, "embed",
                "vectors per token support neither dimensions nor normalize");
  const std::vector<Encoding> encodings = encode(texts, options);
  std::vector<Tensor> out(texts.size());
  for_each_text(encodings, options, [&](std::size_t i, const TensorView& hidden) {
    out[i] = kind() == EmbeddingKind::tokens ? token_rows(encodings[i], hidden, options) : convert(hidden, Dtype::f32);
  });
  return out;
}

Tensor maxsim(std::span<const Tensor> queries, std::span<const Tensor> documents, int threads) {
  const std::int64_t columns = std::ssize(documents);
  Tensor scores = Tensor::uninitialized({std::ssize(queries), columns});
  std::optional<std::int64_t> dim;
  for (const std::span<const Tensor>& all : {queries, documents}) {
    for (const Tensor& each : all) {
      refuse_unless(each.rank() == 2 && each.dtype() == Dtype::f32, "maxsim", "vectors must be f32 [tokens, dim]");
      if (!dim) dim = each.size(1);
      refuse_unless(each.size(1) == *dim, "maxsim", "vectors have {} and {} numbers", *dim, each.size(1));
    }
  }
  parallel_for(std::ssize(queries), threads, [&](std::int64_t q, int) {
    const Tensor& query = queries[static_cast<std::size_t>(q)];
    const std::int64_t tokens = query.size(0);
    const PackedMatrix packed(query.view().transpose(0, 1), 1);
    for (std::int64_t d = 0; d < columns; ++d) {
      const Tensor& document = documents[static_cast<std::size_t>(d)];
      Tensor products = Tensor::uninitialized({document.size(0), tokens});
      matmul(document, packed, products, {.threads = 1});
      std::vector<float> largest(static_cast<std::size_t>(tokens), -std::numeric_limits<float>::infinity());
      for (std::int64_t i = 0; i < products.element_count(); ++i) {
        float& most = largest[static_cast<std::size_t>(i % tokens)];
        most = std::max(most, products.data<float>()[i]);
      }
      scores.data<float>()[q * columns + d] = std::accumulate(largest.begin(), largest.end(), 0.0f);
    }
  });
  return scores;
}

}  // namespace qkv
