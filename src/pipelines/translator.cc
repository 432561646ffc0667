#include "qkv/translator.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "pipelines/generation_folder.h"
#include "qkv/error.h"
#include "qkv/sequences.h"
#include "qkv/threads.h"

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

}  // namespace

Translator Translator::load(const std::string& folder, WeightStorage storage) {
  // The weights last: what refuses a folder refuses it before they are in memory.
  const MarianConfig config = Marian::read_config(folder);
  std::optional<Tokenizer> tokenizer;
  const std::string path = folder + "/tokenizer.json";
  if (std::filesystem::exists(path)) tokenizer = Tokenizer::load(path, config.vocab);
  GenerateOptions defaults = read_generation(folder, config.output_vocab());
  defaults.max_length = std::min(defaults.max_length, config.positions);
  return Translator(folder, Marian::load(folder, storage), std::move(tokenizer), std::move(defaults));
}

const Tokenizer& Translator::tokenizer() const {
  if (!tokenizer_) throw FormatError(folder_ + "/tokenizer.json is missing: only ids can be translated");
  return *tokenizer_;
}

std::vector<std::vector<Hypothesis>> Translator::generate(std::span<const std::vector<std::int32_t>> sources,
                                                          const TranslateOptions& options) const {
  const MarianConfig& config = model_.config();
  GenerateOptions search = defaults_;
  search.sampling = options.sampling;
  search.beams = options.beams.value_or(options.sampling ? 1 : defaults_.beams);
  search.max_length = std::min(options.max_length.value_or(defaults_.max_length), config.positions);
  search.length_penalty = options.length_penalty.value_or(defaults_.length_penalty);
  search.nbest = options.nbest;
  search.threads = options.threads;
  search.stop = options.stop;

  const Batches batches(sources, std::max<std::int64_t>(1, search.beams),
                        options.threads > 0 ? options.threads : threads());
  std::vector<std::vector<Hypothesis>> results(sources.size());
  parallel_for(batches.count(), options.threads, [&](std::int64_t n, int) {
    const std::size_t begin = batches.starts[static_cast<std::size_t>(n)];
    const std::size_t end = batches.starts[static_cast<std::size_t>(n) + 1];
    std::vector<std::int32_t> ids;
    std::vector<std::int64_t> lengths;
    std::vector<std::uint64_t> streams;
    for (std::size_t i = begin; i < end; ++i) {
      const std::vector<std::int32_t>& source = sources[batches.order[i]];
      if (source.empty()) throw std::invalid_argument("translate: a source has no ids");
      ids.insert(ids.end(), source.begin(), source.end());
      lengths.push_back(static_cast<std::int64_t>(source.size()));
      streams.push_back(batches.order[i]);
    }
    const auto targets = model_.targets(ids, offsets_of(lengths), {.threads = options.threads, .stop = options.stop});
    auto found = qkv::generate(*targets, static_cast<std::int64_t>(end - begin), search, streams);
    for (std::size_t i = begin; i < end; ++i) results[batches.order[i]] = std::move(found[i - begin]);
  });
  return results;
}

std::vector<std::vector<Translation>> Translator::translate(std::span<const std::string> texts,
                                                            const TranslateOptions& options) const {
  const Tokenizer& words = tokenizer();
  const auto positions = static_cast<std::size_t>(model_.config().positions);
  std::vector<Encoding> encodings(texts.size());
  std::vector<std::int64_t> cut(texts.size());
  parallel_for(static_cast<std::int64_t>(texts.size()), options.threads, [&](std::int64_t i, int) {
    const auto at = static_cast<std::size_t>(i);
    encodings[at] = words.encode(texts[at]);
    if (encodings[at].ids.size() <= positions) return;
    cut[at] = static_cast<std::int64_t>(encodings[at].ids.size() - positions);
    encodings[at] = words.encode(texts[at], {.max_length = positions});
  });
  std::vector<std::vector<std::int32_t>> sources;
  std::vector<std::size_t> lines;  // of the sources
  std::vector<std::vector<Translation>> results(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::vector<std::uint8_t>& special = encodings[i].special;
    if (std::all_of(special.begin(), special.end(), [](std::uint8_t x) { return x != 0; })) {
      results[i].push_back({});
      continue;
    }
    sources.push_back(std::move(encodings[i].ids));
    lines.push_back(i);
  }
  auto found = generate(sources, options);
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (Hypothesis& hypothesis : found[i]) {
      std::string text = words.decode(hypothesis.tokens);
      results[lines[i]].push_back({.text = std::move(text),
                                   .ids = std::move(hypothesis.tokens),
                                   .score = hypothesis.score,
                                   .cut = cut[lines[i]]});
    }
  }
  return results;
}

Translation Translator::translate(const std::string& text, const TranslateOptions& options) const {
  return translate(std::span(&text, 1), options).front().front();
}

}  // namespace qkv
