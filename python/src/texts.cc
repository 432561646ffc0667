// Encoders with a head on texts: Reranker, TextClassifier, FillMask, Tagger, QuestionAnswerer.
#include <nanobind/stl/string.h>

#include "arguments.h"
#include "bindings.h"
#include "calls.h"
#include "generation.h"
#include "pipelines/texts/character_spans.h"
#include "qkv/pipelines/fill_mask.h"
#include "qkv/pipelines/question_answerer.h"
#include "qkv/pipelines/reranker.h"
#include "qkv/pipelines/tagger.h"
#include "qkv/pipelines/text_classifier.h"

namespace qkv::python {
namespace {

nb::list lists_of(const std::vector<std::vector<ClassProbability>>& found) {
  nb::list lists;
  for (const std::vector<ClassProbability>& each : found) lists.append(classes_of(each));
  return lists;
}

constexpr std::pair<std::string_view, RankScore> kScores[] = {
    {"folder", RankScore::of_folder}, {"logit", RankScore::logit}, {"sigmoid", RankScore::sigmoid}};
constexpr std::pair<std::string_view, Aggregation> kAggregations[] = {{"none", Aggregation::none},
                                                                      {"simple", Aggregation::simple},
                                                                      {"first", Aggregation::first},
                                                                      {"average", Aggregation::average},
                                                                      {"max", Aggregation::max}};

// With `progress` in pieces of `piece` pairs; it is called after each piece with the number of pairs done.
nb::object score_pairs(const Reranker& reranker, nb::handle queries, nb::handle texts, nb::handle score,
                       nb::handle threads, nb::handle piece, nb::handle progress) {
  const std::vector<std::string> all_queries = take_texts(queries, "queries"), all_texts = take_texts(texts, "texts");
  if (all_queries.size() != all_texts.size()) throw std::invalid_argument("queries and texts must be as many");
  std::vector<std::pair<std::string, std::string>> pairs;
  for (std::size_t i = 0; i < all_texts.size(); ++i) pairs.emplace_back(all_queries[i], all_texts[i]);
  const RankOptions options{.score = take_choice(score, "score", kScores), .threads = take_threads(threads)};
  const std::size_t most = progress.is_none() ? pairs.size() : static_cast<std::size_t>(take_whole(piece, "piece"));
  Tensor scores = Tensor::uninitialized({std::ssize(pairs)});
  for (std::size_t begin = 0; begin < pairs.size();) {
    const std::span part = std::span(pairs).subspan(begin, std::min(most, pairs.size() - begin));
    run_released([&] { std::ranges::copy(reranker.score(part, options), scores.data<float>() + begin); });
    begin += part.size();
    if (!progress.is_none()) progress(begin, pairs.size());
  }
  return give_array(std::move(scores), Kind::numpy);
}

// `seconds`: of each text the one that it makes a pair with, or None.
nb::list classify_texts(const TextClassifier& classifier, nb::handle texts, nb::handle seconds, nb::handle top,
                        nb::handle threads) {
  std::vector<TextOrPair> all;
  for (std::string& text : take_texts(texts, "texts")) all.push_back({std::move(text)});
  std::size_t next = 0;
  for (const nb::handle second : seconds) {
    if (!second.is_none()) all.at(next).second = take_text(second, "texts");
    ++next;
  }
  const std::int64_t count = top.is_none() ? classifier.model().config().outputs : take_whole(top, "top_k");
  const TextEncoderOptions options{.threads = take_threads(threads)};
  return lists_of(run_released([&] { return classifier.classify(std::span<const TextOrPair>(all), count, options); }));
}

nb::list fill_masks(const FillMask& model, nb::handle text, nb::handle top, nb::handle threads) {
  const std::string masked = take_text(text, "text");
  const std::int64_t count = take_whole(top, "top_k");
  const TextEncoderOptions options{.threads = take_threads(threads)};
  return lists_of(run_released([&] { return model.fill(masked, count, options); }));
}

nb::list tag_texts(const Tagger& tagger, nb::handle texts, nb::handle aggregation, nb::handle threads) {
  const std::vector<std::string> all = take_texts(texts, "texts");
  const TagOptions options{.aggregation = take_choice(aggregation, "aggregation_strategy", kAggregations),
                           .threads = take_threads(threads)};
  const auto found = run_released([&] { return tagger.tag(all, options); });
  nb::list lists;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const CharacterSpans characters(all[i]);
    nb::list list;
    for (const auto& [label, score, word, span] : found[i]) {
      const TextSpan counted = characters.of(span);
      list.append(nb::make_tuple(give_text(label), score, give_text(word), counted.begin, counted.end));
    }
    lists.append(list);
  }
  return lists;
}

nb::list answer_question(const QuestionAnswerer& answerer, nb::handle question, nb::handle context, nb::handle top,
                         nb::handle max_answer_len, nb::handle max_seq_len, nb::handle doc_stride,
                         nb::handle handle_impossible_answer, nb::handle align_to_words, nb::handle threads) {
  const std::string asked = take_text(question, "question"), given = take_text(context, "context");
  const std::int64_t length = max_seq_len.is_none() ? 0 : take_whole(max_seq_len, "max_seq_len"),
                     stride = take_whole(doc_stride, "doc_stride");
  if (stride < 0 || length < 0) throw std::invalid_argument("doc_stride and max_seq_len must not be negative");
  const AnswerOptions options{
      .top_k = take_whole(top, "top_k"),
      .max_answer_len = take_whole(max_answer_len, "max_answer_len"),
      .max_seq_len = static_cast<std::size_t>(length),
      .doc_stride = static_cast<std::size_t>(stride),
      .handle_impossible_answer = take_flag(handle_impossible_answer, "handle_impossible_answer"),
      .align_to_words = take_flag(align_to_words, "align_to_words"),
      .threads = take_threads(threads)};
  const CharacterSpans characters(given);
  nb::list answers;
  for (const auto& [text, score, span] : run_released([&] { return answerer.answer(asked, given, options); })) {
    const TextSpan counted = characters.of(span);
    answers.append(nb::make_tuple(give_text(text), score, counted.begin, counted.end));
  }
  return answers;
}

}  // namespace

void bind_texts(nb::module_& module) {
  add_model<Reranker>(module, "_Reranker")
      .def("score", &score_pairs, "queries"_a, "texts"_a, "score"_a, "threads"_a, "piece"_a, "progress"_a);
  add_model<TextClassifier>(module, "_TextClassifier")
      .def("classify", &classify_texts, "texts"_a, "seconds"_a, "top_k"_a, "threads"_a);
  add_model<FillMask>(module, "_FillMask")
      .def("fill", &fill_masks, "text"_a, "top_k"_a, "threads"_a)
      .def("mask", [](const FillMask& model) { return model.mask(); });
  add_model<Tagger>(module, "_Tagger").def("tag", &tag_texts, "texts"_a, "aggregation_strategy"_a, "threads"_a);
  add_model<QuestionAnswerer>(module, "_QuestionAnswerer")
      .def("answer", &answer_question, "question"_a, "context"_a, "top_k"_a, "max_answer_len"_a, "max_seq_len"_a,
           "doc_stride"_a, "handle_impossible_answer"_a, "align_to_words"_a, "threads"_a);
}

}  // namespace qkv::python
