// Finds the logits that a head's answer comes from, and what they say, with gradients.
#include "qkv/explain/judged_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "core/mathematics.h"
#include "explain/observe/left_out_masks.h"
#include "explain/observe/require.h"
#include "explain/observe/token_names.h"
#include "ops/rowwise/row_kernels.h"
#include "pipelines/classes.h"
#include "pipelines/text_batches.h"
#include "qkv/explain/encoded_text.h"
#include "qkv/layers/sequences.h"

namespace qkv {
namespace {

TokenBatch batch_of(const Encoding& text) {
  return {text.ids, text.type_ids, offsets_of(std::vector<std::int64_t>{std::ssize(text.ids)})};
}

Encoding encoded(const TextPipeline& model, const std::string& text, std::int64_t& cut) {
  return encode_texts("explain", model.tokenizer(), std::span(&text, 1),
                      {.max_length = model.max_length(), .cut = std::span(&cut, 1)})
      .front();
}

std::span<const float> row_at(const Tensor& logits, std::int64_t row) {
  return {logits.data<float>() + row * logits.size(1), static_cast<std::size_t>(logits.size(1))};
}

std::int64_t largest_at(const Tensor& logits, std::int64_t row) {
  const std::span<const float> own = row_at(logits, row);
  return std::ranges::max_element(own) - own.begin();
}

std::vector<float> column_at(const Tensor& logits, std::int64_t column) {
  std::vector<float> own;
  for (std::int64_t i = 0; i < logits.size(0); ++i) own.push_back(logits.view().at<float>({i, column}));
  return own;
}

double log_softmax(std::span<const float> logits, std::int64_t at) {
  return static_cast<double>(logits[static_cast<std::size_t>(at)]) - log_sum_exp(logits);
}

}  // namespace

struct JudgedText::Given {
  Encoding encoding{};
  std::string input{};  // as titles say it
  std::int64_t cut = 0;
  Form form = Form::softmax;
  std::vector<std::int64_t> rows{0};
  // Which outputs there are, by the logits of the whole run.
  std::function<std::vector<Output>(const Tensor& logits)> outputs{};
  std::stop_token stop{};
};

JudgedText::JudgedText(const TextPipeline& model, Given given)
    : model_(model.model()),
      attentions_(EncodedText(model.model().encoder(), given.encoding).attentions()),
      tokens_(batch_of(given.encoding)),
      stop_(std::move(given.stop)),
      form_(given.form),
      rows_(std::move(given.rows)) {
  const Tensor whole = logits({});
  outputs_ = given.outputs(whole);
  attentions_.input = std::move(given.input);
  attentions_.outputs =
      HeadOutputs{.sequence = attentions_.sequences.size(), .are_scores = form_ == Form::logit, .cut = given.cut};
  AttentionSequence& names = attentions_.sequences.emplace_back(AttentionSequence{.name = "outputs"});
  for (const Output& one : outputs_) names.tokens.push_back(one.name);
  names.special.resize(names.tokens.size());
}

JudgedText::JudgedText(const TextClassifier& model, const TextOrPair& text, const std::string& label,
                       std::stop_token stop)
    : JudgedText(model, [&] {
        Given given{.input = text.text + (text.second ? " | " + *text.second : ""), .stop = std::move(stop)};
        given.encoding = model.encode(text, &given.cut);
        const ClassScores scores = model.scores();
        given.form = scores == ClassScores::softmax   ? Form::softmax
                     : scores == ClassScores::sigmoid ? Form::sigmoid
                                                      : Form::logit;
        given.outputs = [&model, &label](const Tensor& logits) {
          const std::vector<std::string>& labels = model.model().config().labels;
          std::int64_t at = largest_at(logits, 0);
          if (!label.empty()) at = std::ranges::find(labels, label) - labels.begin();
          require(at < std::ssize(labels), "the model has no label \"{}\", only {}", label, fmt::join(labels, ", "));
          return std::vector<Output>{{labels[static_cast<std::size_t>(at)], 0, at}};
        };
        return given;
      }()) {}

JudgedText::JudgedText(const Reranker& model, const std::string& query, const std::string& text, std::stop_token stop)
    : JudgedText(model, [&] {
        Given given{.encoding = model.tokenizer().encode_pair(query, text, model.max_length()),
                    .input = query + " | " + text,
                    .form = Form::logit,
                    .stop = std::move(stop)};
        given.cut = std::ssize(model.tokenizer().encode_pair(query, text).ids) - std::ssize(given.encoding.ids);
        given.outputs = [](const Tensor&) { return std::vector<Output>{{"score", 0, 0}}; };
        return given;
      }()) {}

JudgedText::JudgedText(const FillMask& model, const std::string& text, const std::string& word, std::stop_token stop)
    : JudgedText(model, [&] {
        Given given{.encoding = model.tokenizer().encode(text), .input = text, .rows = {}, .stop = std::move(stop)};
        for (std::size_t i = 0; i < given.encoding.ids.size(); ++i) {
          const bool is_masked = given.encoding.ids[i] == *model.tokenizer().id_of(model.mask());
          if (is_masked) given.rows.push_back(static_cast<std::int64_t>(i));
        }
        require(!given.rows.empty(), "the text has no {}", model.mask());
        given.outputs = [&model, &word](const Tensor& logits) {
          const std::vector<std::string>& words = model.words();
          const auto known =
              std::ranges::find_if(words, [&](const std::string& one) { return one == word || one == " " + word; });
          require(word.empty() || known != words.end(), "\"{}\" is not a single word of the vocabulary", word);
          std::vector<Output> all;
          for (std::int64_t i = 0; i < logits.size(0); ++i) {
            const std::int64_t at = word.empty() ? largest_at(logits, i) : known - words.begin();
            all.push_back({words[static_cast<std::size_t>(at)], i, at});
          }
          return all;
        };
        return given;
      }()) {}

JudgedText::JudgedText(const Tagger& model, const std::string& text, std::stop_token stop)
    : JudgedText(model, [&] {
        Given given{.input = text, .stop = std::move(stop)};
        given.encoding = encoded(model, text, given.cut);
        given.rows.resize(given.encoding.ids.size());
        std::iota(given.rows.begin(), given.rows.end(), std::int64_t{0});
        given.outputs = [&model, special = given.encoding.special,
                         tokens = given.encoding.tokens](const Tensor& logits) {
          std::vector<Output> all;
          for (std::size_t i = 0; i < tokens.size(); ++i) {
            const auto row = static_cast<std::int64_t>(i), at = largest_at(logits, row);
            const std::string& label = model.model().config().labels[static_cast<std::size_t>(at)];
            if (special[i] == 0 && label != "O") all.push_back({label + " of " + label_of(tokens[i]), row, at});
          }
          return all;
        };
        return given;
      }()) {}

JudgedText::JudgedText(const QuestionAnswerer& model, const std::string& question, const std::string& context,
                       std::stop_token stop)
    : JudgedText(model, [&] {
        const std::vector<Answer> best = model.answer(question, context, {.stop = stop});
        require(!best.empty(), "the context has no token");
        Given given{.input = question + " | " + context, .form = Form::answer, .stop = std::move(stop)};
        double most = 0;
        for (PairWindow& window : model.windows(question, context)) {
          // Rows: the tokens of the context, then the first one of all.
          std::vector<std::int64_t> rows(window.end - window.begin);
          std::iota(rows.begin(), rows.end(), static_cast<std::int64_t>(window.begin));
          rows.push_back(0);
          std::int64_t first = -1, last = -1;
          for (std::size_t i = window.begin; i < window.end; ++i) {
            const TextSpan& span = window.encoding.offsets[i];
            if (span.begin < best.front().span.begin || span.end > best.front().span.end) continue;
            last = static_cast<std::int64_t>(i - window.begin);
            if (first < 0) first = last;
          }
          if (first < 0) continue;
          const Tensor logits = model.model().logits_of(rows, batch_of(window.encoding), {.stop = given.stop});
          const double score = log_softmax(column_at(logits, 0), first) + log_softmax(column_at(logits, 1), last);
          if (!given.encoding.ids.empty() && score <= most) continue;
          most = score;
          given.encoding = std::move(window.encoding);
          given.rows = std::move(rows);
          given.outputs = [first, last, name = best.front().text](const Tensor&) {
            return std::vector<Output>{{name, first, last}};
          };
        }
        return given;
      }()) {}

JudgedText JudgedText::without(LeftOut left_out) const {
  check_left_out(attentions_, left_out);
  JudgedText text = *this;
  text.attentions_.left_out = std::move(left_out);
  return text;
}

void JudgedText::run(Observer& observer) const {
  const LeftOutMasks masks(attentions_);
  model_.encoder().forward(tokens_, {.stop = stop_, .masks = masks.of(0)}, &observer);
}

Tensor JudgedText::logits(const LeftOut& more) const {
  const LeftOutMasks masks(attentions_, more);
  const TextEncoderOptions options{.stop = stop_, .masks = masks.of(0)};
  return model_.config().task == TextTask::sequence_class ? model_.logits(tokens_, options)
                                                          : model_.logits_of(rows_, tokens_, options);
}

Outcome JudgedText::outcome(const LeftOut& more) const {
  const Tensor all = logits(more);
  Outcome found;
  for (const auto& [name, row, column] : outputs_) {
    const double logit = all.view().at<float>({row, form_ == Form::answer ? 0 : column});
    switch (form_) {
      case Form::softmax:
        found.log_probabilities.push_back(log_softmax(row_at(all, row), column));
        break;
      case Form::sigmoid:
        found.log_probabilities.push_back(std::min(logit, 0.0) - log(1 + exp(-std::abs(logit))));
        break;
      case Form::logit:
        found.log_probabilities.push_back(logit);
        break;
      case Form::answer:
        found.log_probabilities.push_back(log_softmax(column_at(all, 0), row) + log_softmax(column_at(all, 1), column));
        break;
    }
  }
  return found;
}

void JudgedText::run_backward(std::int64_t output, Observer& observer) const {
  check_whole(attentions_);
  const Tensor all = logits({});
  Tensor grad = Tensor::zeros(all.shape());  // of minus the number
  const auto& [name, row, column] = outputs_.at(static_cast<std::size_t>(output));
  const auto at = [&](std::int64_t i, std::int64_t j) -> float& { return grad.data<float>()[i * grad.size(1) + j]; };
  if (form_ == Form::answer) {
    for (const auto& [place, part] : {std::pair(row, std::int64_t{0}), std::pair(column, std::int64_t{1})}) {
      const std::vector<double> shares = softmax(column_at(all, part));
      for (std::size_t i = 0; i < shares.size(); ++i)
        at(static_cast<std::int64_t>(i), part) = static_cast<float>(shares[i]);
      at(place, part) -= 1;
    }
  } else if (form_ == Form::softmax) {
    const std::vector<double> shares = softmax(row_at(all, row));
    for (std::size_t j = 0; j < shares.size(); ++j)
      at(row, static_cast<std::int64_t>(j)) = static_cast<float>(shares[j]);
    at(row, column) -= 1;
  } else {
    const double logit = all.view().at<float>({row, column});
    at(row, column) = form_ == Form::sigmoid ? static_cast<float>(sigmoid(logit) - 1) : -1;
  }
  model_.observe_gradients(rows_, tokens_, grad, observer);
}

}  // namespace qkv
