// QuestionAnswerer: from logits of first and last tokens to parts of the context.
#include "qkv/pipelines/question_answerer.h"

#include <algorithm>
#include <map>

#include "core/refuse.h"
#include "core/stop.h"
#include "pipelines/classes.h"
#include "pipelines/text_batches.h"
#include "pipelines/texts/text_folder.h"
#include "qkv/stop.h"
#include "text/stages/unicode.h"

namespace qkv {
namespace {

constexpr std::size_t kMaxSequence = 384;  // of transformers' pipeline

// Tokens of a window, both included.
struct TokenSpan {
  std::size_t first, last;
  double score;
};

// How probable it is that an answer begins (column 0) or ends (1) at each token of the context; the last one is that of
// the sequence's first token, which stands for no answer.
std::vector<double> shares_of(const TensorView& logits, const PairWindow& window, std::int64_t column) {
  std::vector<float> row;
  const float* const values = logits.data<float>() + column;
  for (std::size_t i = window.begin; i < window.end; ++i) row.push_back(values[2 * i]);
  row.push_back(values[0]);
  return softmax(row);
}

// At most `count` spans, falling.
std::vector<TokenSpan> best_spans(const std::vector<double>& begins, const std::vector<double>& ends,
                                  const PairWindow& window, std::size_t max_tokens, std::size_t count) {
  const std::size_t tokens = window.end - window.begin;
  std::vector<TokenSpan> best;
  const auto falls = [](const TokenSpan& a, const TokenSpan& b) { return a.score > b.score; };
  StopTurns turns;
  for (std::size_t first = 0; first < tokens; ++first) {
    for (std::size_t last = first; last < std::min(tokens, first + max_tokens); ++last) {
      turns.next();
      const double score = begins[first] * ends[last];
      if (best.size() == count && !(score > best.back().score)) continue;
      const TokenSpan span{window.begin + first, window.begin + last, score};
      best.insert(std::ranges::upper_bound(best, span, falls), span);
      if (best.size() > count) best.pop_back();
    }
  }
  return best;
}

// Bytes of the context.
TextSpan text_span(const TokenSpan& span, const PairWindow& window, bool whole_words) {
  std::size_t first = span.first, last = span.last;
  const std::vector<std::int32_t>& words = window.encoding.words;
  while (whole_words && first > window.begin && words[first - 1] == words[span.first]) --first;
  while (whole_words && last + 1 < window.end && words[last + 1] == words[span.last]) ++last;
  return {window.encoding.offsets[first].begin, window.encoding.offsets[last].end};
}

std::string lower(std::string_view utf8) {
  std::string lowered;
  for (const char32_t code : text::to_code_points(utf8)) {
    const auto [first, second] = text::lower_case(code);
    text::append_utf8(lowered, first);
    if (second != 0) text::append_utf8(lowered, second);
  }
  return lowered;
}

}  // namespace

QuestionAnswerer QuestionAnswerer::load(const std::string& folder, WeightStorage storage) {
  return QuestionAnswerer(open_pairs(folder, TextTask::answer, storage));
}

std::vector<PairWindow> QuestionAnswerer::windows(const std::string& question, const std::string& context,
                                                  const AnswerOptions& options) const {
  const std::int64_t positions = model().encoder().config().positions;
  refuse_unless(static_cast<std::int64_t>(options.max_seq_len) <= positions, "answer",
                "max_seq_len is {}, but the model has {} positions", options.max_seq_len, positions);
  const std::size_t most = options.max_seq_len > 0 ? options.max_seq_len : std::min(max_length(), kMaxSequence);
  return tokenizer().encode_windows(question, context, most, std::min(options.doc_stride, most / 2));
}

std::vector<Answer> QuestionAnswerer::answer(const std::string& question, const std::string& context,
                                             const AnswerOptions& options) const {
  const StopScope stop(options.stop);
  refuse_unless(options.top_k >= 1, "answer", "top_k is {}, at least 1 is needed", options.top_k);
  refuse_unless(options.max_answer_len >= 1, "answer", "max_answer_len is {}, at least 1 is needed",
                options.max_answer_len);
  const std::vector<PairWindow> read = windows(question, context, options);
  std::vector<Encoding> encodings;
  for (const PairWindow& window : read) encodings.push_back(window.encoding);
  // Some become one when they are put into words.
  const std::size_t top = static_cast<std::size_t>(options.top_k),
                    candidates = options.align_to_words ? 2 * top + 10 : top;
  std::vector<std::vector<Answer>> found(read.size());
  std::vector<double> impossible(read.size());
  for_each_text_batch(encodings, options.threads, [&](const TokenBatch& batch, std::size_t begin) {
    const Tensor logits = model().logits(batch, {.threads = options.threads});
    const std::int32_t* const offsets = batch.offsets.data<std::int32_t>();
    for (std::int64_t b = 0; b < batch.batch(); ++b) {
      const std::size_t at = begin + static_cast<std::size_t>(b);
      const TensorView rows = logits.view().slice(0, offsets[b], offsets[b + 1]);
      const std::vector<double> begins = shares_of(rows, read[at], 0), ends = shares_of(rows, read[at], 1);
      impossible[at] = begins.back() * ends.back();
      for (const TokenSpan& span :
           best_spans(begins, ends, read[at], static_cast<std::size_t>(options.max_answer_len), candidates)) {
        const TextSpan bytes = text_span(span, read[at], options.align_to_words);
        found[at].push_back({context.substr(bytes.begin, bytes.end - bytes.begin), span.score, bytes});
      }
    }
  });
  std::vector<Answer> answers;
  std::map<std::string, std::size_t> known;
  for (const std::vector<Answer>& of_window : found) {
    for (const Answer& each : of_window) {
      const auto [place, is_new] = known.emplace(lower(each.text), answers.size());
      if (is_new) {
        answers.push_back(each);
      } else {
        answers[place->second].score += each.score;
      }
    }
  }
  if (options.handle_impossible_answer) answers.push_back({"", *std::ranges::min_element(impossible), {}});
  std::ranges::stable_sort(answers, std::ranges::greater(), &Answer::score);
  answers.resize(std::min(answers.size(), top));
  return answers;
}

}  // namespace qkv
