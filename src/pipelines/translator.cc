// Translator: splits texts, tokenizes, generates in batches and detokenizes.
#include "qkv/pipelines/translator.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "pipelines/pipeline_folder.h"
#include "qkv/error.h"
#include "qkv/layers/sequences.h"
#include "qkv/stop.h"
#include "qkv/threads.h"
#include "text/sentences.h"
#include "text/tokenizer_parts.h"

namespace qkv {
namespace {

// Rows that are written together, sentences times beams: enough for the products of a step to run at full speed, few
// enough for a row of logits for each to stay in the cache.
constexpr std::int64_t kBatchRows = 128;

// Batches for each worker, so that none waits long for the last one.
constexpr std::int64_t kBatchesOfAWorker = 2;

// The sequences in the order of their lengths, cut into batches of about the same number of tokens: [starts[n],
// starts[n + 1]) of `order`.
struct Batches {
  Batches(std::span<const std::vector<std::int32_t>> sources, std::int64_t beams, int workers) : order(sources.size()) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return sources[a].size() > sources[b].size(); });
    std::size_t tokens = 0, passed = 0;
    for (const std::vector<std::int32_t>& source : sources) tokens += source.size();
    const auto rows = static_cast<std::size_t>(std::max<std::int64_t>(1, kBatchRows / beams));
    const std::size_t wanted = workers == 1 ? 1 : static_cast<std::size_t>(workers * kBatchesOfAWorker);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const bool is_full = !starts.empty() && i - starts.back() == rows;
      if (starts.empty() || is_full || passed * wanted >= starts.size() * tokens) starts.push_back(i);
      passed += sources[order[i]].size();
    }
    starts.push_back(order.size());
  }

  std::int64_t count() const { return static_cast<std::int64_t>(starts.size()) - 1; }

  std::vector<std::size_t> order, starts;
};

// The n-th best translations of all sentences in one; those without tokens have one translation, which is empty.
std::vector<Translation> joined(const std::string& source, const std::vector<std::vector<Translation>>& sentences,
                                double length_penalty) {
  std::size_t count = 0;
  for (const auto& best : sentences) {
    if (!best.front().ids.empty()) count = count == 0 ? best.size() : std::min(count, best.size());
  }
  std::vector<Translation> whole(std::max<std::size_t>(1, count), Translation{.source = source});
  for (std::size_t n = 0; n < whole.size(); ++n) {
    Translation& all = whole[n];
    for (const auto& best : sentences) {
      const Translation& one = best[std::min(n, best.size() - 1)];
      if (!all.text.empty() && !one.text.empty() && !text::ends_wide(all.text)) all.text += ' ';
      all.text += one.text;
      all.ids.insert(all.ids.end(), one.ids.begin(), one.ids.end());
      all.log_probability += one.log_probability;
      all.unsure = all.unsure || one.unsure;
      all.cut += one.cut;
      all.sentences.push_back(one);
    }
    const auto length = static_cast<double>(std::max<std::size_t>(1, all.ids.size()));
    all.score = all.log_probability / pow(length, length_penalty);
  }
  return whole;
}

std::optional<Tokenizer> load_if_there(const std::string& path, std::int64_t vocab) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  return Tokenizer::load(path, vocab);
}

}  // namespace

Translator Translator::load(const std::string& folder, WeightStorage storage) {
  const EncoderDecoderTokens tokens = EncoderDecoder::check(folder);
  std::optional<Tokenizer> tokenizer = load_if_there(folder + "/tokenizer.json", tokens.vocab);
  std::optional<Tokenizer> target;
  if (!tokenizer && std::filesystem::exists(folder + "/source.spm")) {
    const std::string words = folder + (tokens.target_vocab > 0 ? "/target_vocab.json" : "/vocab.json");
    tokenizer = Tokenizer::load_marian(folder + "/source.spm", folder + "/vocab.json", tokens.vocab);
    target = Tokenizer::load_marian(folder + "/target.spm", words, tokens.output_vocab());
    const std::string settings = folder + "/tokenizer_config.json";
    if (std::filesystem::exists(settings)) text::check_marian_settings(settings, *tokenizer, tokens.target_vocab > 0);
  } else if (tokens.target_vocab > 0) {
    target = load_if_there(folder + "/target_tokenizer.json", tokens.target_vocab);
  }
  auto [defaults, unsure_below] = read_generation(folder, tokens.output_vocab());
  defaults.max_length = std::min(defaults.max_length, tokens.positions);
  return Translator(folder, EncoderDecoder::load(folder, storage), std::move(tokenizer), std::move(target),
                    std::move(defaults), unsure_below);
}

const Tokenizer& Translator::tokenizer() const {
  if (!tokenizer_) throw FormatError(folder_ + "/tokenizer.json is missing: only ids can be translated");
  return *tokenizer_;
}

const Tokenizer& Translator::target_tokenizer() const {
  if (target_tokenizer_) return *target_tokenizer_;
  if (model_->tokens().target_vocab == 0) return tokenizer();
  throw FormatError(folder_ + "/target_tokenizer.json is missing: only ids can be translated");
}

// Input of one pass of the encoder: a text, or a sentence of one that is too long.
struct Translator::Piece {
  std::string text;
  std::vector<std::int32_t> ids;  // none: there is nothing to translate
  std::int64_t cut = 0;
};

std::int64_t Translator::beams(const TranslateOptions& options) const {
  return options.beams.value_or(options.sampling ? 1 : defaults_.beams);
}

GenerateOptions Translator::search_options(const TranslateOptions& options) const {
  GenerateOptions search = defaults_;
  search.sampling = options.sampling;
  search.beams = beams(options);
  search.max_length = std::min(options.max_length.value_or(defaults_.max_length), model_->tokens().positions);
  search.length_penalty = options.length_penalty.value_or(defaults_.length_penalty);
  search.nbest = options.nbest;
  search.threads = options.threads;
  return search;
}

std::vector<std::vector<Hypothesis>> Translator::search(std::span<const std::vector<std::int32_t>> sources,
                                                        std::span<const RandomStream> streams,
                                                        const TranslateOptions& options) const {
  const GenerateOptions search = search_options(options);
  const Batches batches(sources, std::max<std::int64_t>(1, search.beams),
                        options.threads > 0 ? options.threads : threads());
  std::vector<std::vector<Hypothesis>> results(sources.size());
  parallel_for(batches.count(), options.threads, [&](std::int64_t n, int) {
    const std::size_t begin = batches.starts[static_cast<std::size_t>(n)];
    const std::size_t end = batches.starts[static_cast<std::size_t>(n) + 1];
    std::vector<std::int32_t> ids;
    std::vector<std::int64_t> lengths;
    std::vector<RandomStream> own;
    for (std::size_t i = begin; i < end; ++i) {
      const std::vector<std::int32_t>& source = sources[batches.order[i]];
      if (source.empty()) refuse("translate", "a source has no ids");
      ids.insert(ids.end(), source.begin(), source.end());
      lengths.push_back(static_cast<std::int64_t>(source.size()));
      own.push_back(streams[batches.order[i]]);
    }
    const auto decoder = model_->decoder(ids, offsets_of(lengths), {.threads = options.threads});
    auto found = qkv::generate(*decoder, static_cast<std::int64_t>(end - begin), search, own);
    for (std::size_t i = begin; i < end; ++i) results[batches.order[i]] = std::move(found[i - begin]);
  });
  return results;
}

std::vector<std::vector<Hypothesis>> Translator::generate(std::span<const std::vector<std::int32_t>> sources,
                                                          const TranslateOptions& options) const {
  const StopScope stop(options.stop);
  std::vector<RandomStream> streams;
  for (std::size_t i = 0; i < sources.size(); ++i) streams.push_back({options.stream.line + i, options.stream.part});
  return search(sources, streams, options);
}

bool Translator::is_unsure(const Hypothesis& found) const {
  const auto tokens = static_cast<double>(found.tokens.size());
  return unsure_below_ && found.log_probability < *unsure_below_ * tokens;
}

std::vector<std::string> Translator::sentences(const std::string& text) const {
  const auto fits = [&](std::string_view part) {
    return tokenizer().encode(part).ids.size() <= static_cast<std::size_t>(model_->tokens().positions);
  };
  if (fits(text)) return {text};
  std::vector<std::string> parts;
  for (const std::string_view sentence : text::split_sentences(text)) {
    if (fits(sentence)) {
      parts.emplace_back(sentence);
      continue;
    }
    for (const std::string_view part : text::split_sentences(sentence, text::SentenceBegin::anything)) {
      parts.emplace_back(part);
    }
  }
  return parts.empty() ? std::vector{text} : parts;
}

std::vector<Translator::Piece> Translator::pieces(const std::string& text, bool split) const {
  if (text::is_blank(text)) return {{.text = text, .ids = {}}};
  const auto positions = static_cast<std::size_t>(model_->tokens().positions);
  Encoding encoding = tokenizer().encode(text);
  std::vector<Piece> all;
  if (encoding.ids.size() > positions && split) {
    for (const std::string& sentence : sentences(text)) all.push_back(std::move(pieces(sentence, false).front()));
    return all;
  }
  Piece piece{.text = text, .ids = {}};
  if (encoding.ids.size() > positions) {
    piece.cut = static_cast<std::int64_t>(encoding.ids.size() - positions);
    encoding = tokenizer().encode(text, {.max_length = positions});
  }
  const bool has_tokens = std::any_of(encoding.special.begin(), encoding.special.end(), [](auto x) { return x == 0; });
  if (has_tokens) piece.ids = std::move(encoding.ids);
  all.push_back(std::move(piece));
  return all;
}

std::vector<std::vector<Translation>> Translator::translate(std::span<const std::string> texts,
                                                            const TranslateOptions& options) const {
  const StopScope stop(options.stop);
  tokenizer();  // before any work
  const Tokenizer& target_words = target_tokenizer();
  std::vector<std::vector<Piece>> read(texts.size());
  parallel_for(static_cast<std::int64_t>(texts.size()), options.threads, [&](std::int64_t i, int) {
    read[static_cast<std::size_t>(i)] = pieces(texts[static_cast<std::size_t>(i)], options.split);
  });
  std::vector<std::vector<std::int32_t>> sources;
  std::vector<RandomStream> streams;
  for (std::size_t i = 0; i < read.size(); ++i) {
    for (std::size_t s = 0; s < read[i].size(); ++s) {
      if (read[i][s].ids.empty()) continue;
      sources.push_back(read[i][s].ids);
      streams.push_back({options.stream.line + i, options.stream.part + static_cast<std::uint32_t>(s)});
    }
  }
  auto found = search(sources, streams, options);

  const double length_penalty = search_options(options).length_penalty;
  std::vector<std::vector<Translation>> results;
  auto next = found.begin();
  for (std::size_t i = 0; i < read.size(); ++i) {
    std::vector<std::vector<Translation>> translated;
    for (const Piece& piece : read[i]) {
      auto& best = translated.emplace_back();
      if (piece.ids.empty()) {
        best.push_back({.source = piece.text});
        continue;
      }
      for (Hypothesis& one : *next++) {
        const bool unsure = is_unsure(one);
        best.push_back({.text = target_words.decode(one.tokens),
                        .ids = std::move(one.tokens),
                        .log_probability = one.log_probability,
                        .score = one.score,
                        .unsure = unsure,
                        .cut = piece.cut,
                        .source = piece.text});
      }
    }
    results.push_back(translated.size() == 1 ? std::move(translated.front())
                                             : joined(texts[i], translated, length_penalty));
  }
  return results;
}

void Translator::observe_gradients(const PairBatch& pair, std::int64_t token, Observer& observer) const {
  model_->backward(pair, {.only = token, .observer = &observer});
}

Translation Translator::translate(const std::string& text, const TranslateOptions& options) const {
  return translate(std::span(&text, 1), options).front().front();
}

}  // namespace qkv
