// Tagger: labels of tokens, of words and of what is joined.
#include "qkv/pipelines/tagger.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "pipelines/classes.h"
#include "pipelines/text_batches.h"
#include "pipelines/texts/character_spans.h"
#include "qkv/stop.h"

namespace qkv {
namespace {

struct TaggedToken {
  std::string word;
  TextSpan span;
  std::vector<double> probabilities;
  bool continues = false;  // the word of the token before
};

// Its most probable label.
struct Chosen {
  std::size_t label;
  double score;
};

Chosen chosen_of(const std::vector<double>& probabilities) {
  const auto most = std::ranges::max_element(probabilities);
  return {static_cast<std::size_t>(most - probabilities.begin()), *most};
}

std::vector<TaggedToken> tokens_of(const std::string& text, const Encoding& encoding, const TensorView& logits,
                                   const Tokenizer& tokenizer) {
  const auto is_space = [&](std::size_t at) { return at < text.size() && text[at] == ' '; };
  std::vector<TaggedToken> tokens;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    if (encoding.special[i] != 0) continue;
    const TextSpan span = encoding.offsets[i];
    const float* const row = logits.data<float>() + static_cast<std::int64_t>(i) * logits.size(1);
    TaggedToken token{.word = encoding.tokens[i],
                      .span = span,
                      .probabilities = softmax({row, static_cast<std::size_t>(logits.size(1))})};
    const std::string covered = text.substr(span.begin, span.end - span.begin);
    if (encoding.ids[i] == tokenizer.unknown()) {
      token.word = covered;
      token.continues = false;
    } else if (tokenizer.marks_continuations()) {
      token.continues = characters_in(token.word) != characters_in(covered);
    } else {
      token.continues = span.begin > 0 && !is_space(span.begin - 1) && !is_space(span.begin);
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

Chosen chosen_of_word(std::span<const TaggedToken> word, Aggregation aggregation) {
  if (aggregation == Aggregation::max) {
    const auto surest = std::ranges::max_element(
        word, {}, [](const TaggedToken& token) { return std::ranges::max(token.probabilities); });
    return chosen_of(surest->probabilities);
  }
  std::vector<double> mean = word[0].probabilities;
  if (aggregation == Aggregation::first) return chosen_of(mean);
  for (const TaggedToken& token : word.subspan(1)) {
    std::ranges::transform(mean, token.probabilities, mean.begin(), std::plus());
  }
  for (double& each : mean) each /= static_cast<double>(word.size());
  return chosen_of(mean);
}

// Each token, or each word.
std::vector<TaggedSpan> label(const std::vector<TaggedToken>& tokens, const TagOptions& options,
                              const std::vector<std::string>& labels, const Tokenizer& tokenizer) {
  const bool is_of_words = options.aggregation > Aggregation::simple;
  std::vector<TaggedSpan> found;
  for (std::size_t begin = 0, end; begin < tokens.size(); begin = end) {
    end = begin + 1;
    while (is_of_words && end < tokens.size() && tokens[end].continues) ++end;
    const auto word = std::span(tokens).subspan(begin, end - begin);
    const Chosen chosen = is_of_words ? chosen_of_word(word, options.aggregation) : chosen_of(word[0].probabilities);
    std::vector<std::string> parts;
    for (const TaggedToken& token : word) parts.push_back(token.word);
    found.push_back({.label = labels[chosen.label],
                     .score = chosen.score,
                     .word = is_of_words ? tokenizer.join(std::move(parts)) : parts[0],
                     .span = {word.front().span.begin, word.back().span.end}});
  }
  return found;
}

// "B-LOC" is LOC and begins, "I-LOC" and "LOC" do not.
std::pair<std::string, bool> tag_of(const std::string& label) {
  const bool begins = label.starts_with("B-");
  return {begins || label.starts_with("I-") ? label.substr(2) : label, begins};
}

std::vector<TaggedSpan> join_neighbours(const std::vector<TaggedSpan>& found, const Tokenizer& tokenizer) {
  std::vector<TaggedSpan> joined;
  for (std::size_t begin = 0, end; begin < found.size(); begin = end) {
    const std::string tag = tag_of(found[begin].label).first;
    std::vector<std::string> words{found[begin].word};
    double sum = found[begin].score;
    for (end = begin + 1; end < found.size() && tag_of(found[end].label) == std::pair(tag, false); ++end) {
      words.push_back(found[end].word);
      sum += found[end].score;
    }
    const std::string& label = found[begin].label;
    joined.push_back({.label = label.substr(label.find('-') + 1),
                      .score = sum / static_cast<double>(end - begin),
                      .word = tokenizer.join(std::move(words)),
                      .span = {found[begin].span.begin, found[end - 1].span.end}});
  }
  return joined;
}

}  // namespace

Tagger Tagger::load(const std::string& folder, WeightStorage storage) {
  return Tagger(TextPipeline::load(folder, TextTask::token_class, storage));
}

std::vector<std::vector<TaggedSpan>> Tagger::tag(std::span<const std::string> texts, const TagOptions& options) const {
  const StopScope stop(options.stop);
  const std::vector<Encoding> encodings =
      encode_texts("tag", tokenizer(), texts, {max_length(), options.threads, options.cut});
  std::vector<std::vector<TaggedSpan>> found(texts.size());
  for_each_text_batch(encodings, options.threads, [&](const TokenBatch& batch, std::size_t first) {
    const Tensor logits = model().logits(batch, {.threads = options.threads});
    const std::int32_t* const offsets = batch.offsets.data<std::int32_t>();
    for (std::int64_t b = 0; b < batch.batch(); ++b) {
      const std::size_t i = first + static_cast<std::size_t>(b);
      const std::vector<TaggedToken> tokens =
          tokens_of(texts[i], encodings[i], logits.view().slice(0, offsets[b], offsets[b + 1]), tokenizer());
      found[i] = label(tokens, options, model().config().labels, tokenizer());
      if (options.aggregation != Aggregation::none) found[i] = join_neighbours(found[i], tokenizer());
      std::erase_if(found[i], [](const TaggedSpan& each) { return each.label == "O"; });
    }
  });
  return found;
}

}  // namespace qkv
