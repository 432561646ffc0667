// Explanations as text, JSON and a page: of arrays step by step, and of the heads of a model.
#include "qkv/explain/explain.h"

#include <nanobind/stl/string.h>

#include <optional>
#include <utility>
#include <variant>

#include "arguments.h"
#include "arrays.h"
#include "bindings.h"
#include "calls.h"
#include "keywords.h"
#include "qkv/explain/encoded_text.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/given_weights.h"
#include "qkv/explain/judged_text.h"
#include "qkv/explain/report.h"
#include "qkv/explain/token_measures.h"
#include "qkv/explain/translated_text.h"
#include "qkv/explain/written_text.h"
#include "qkv/pipelines/embedder.h"
#include "qkv/pipelines/generator.h"
#include "qkv/pipelines/translator.h"

namespace qkv::python {
namespace {

struct Explained {
  std::variant<Explanation, HeadSurvey, TokenMeasures> what;
  std::string title;
  std::string start{};  // the view that a page shows first
};

std::string text_of_width(const Explained& explained, nb::handle width) {
  const TextStyle style{.width = take_count(width, "width")};
  return std::visit([&](const auto& what) { return to_text(what, style); }, explained.what);
}

std::string json_of(const Explained& explained) {
  return std::visit([](const auto& what) { return to_json(what); }, explained.what);
}

std::string html_of(const Explained& explained, nb::handle command) {
  Report report;
  std::visit([&](const auto& what) { report.add(what); }, explained.what);
  return report.html(explained.title, take_text(command, "command"), explained.start);
}

Explained survey(const Explainable& input) {
  HeadSurvey found = survey_heads(input, {.keep_weights = true});
  std::string title = found.attentions.input.empty() ? "Heads" : found.attentions.input;
  return {std::move(found), std::move(title)};
}

template <class Value, class Take>
std::vector<Value> vector_of(nb::handle given, const Take& take) {
  std::vector<Value> list;
  for (const nb::handle one : given) list.push_back(take(one));
  return list;
}

// Weights of another program: `sequences` (name, caption, tokens), `attentions` (name, title, caption, numbers of the
// queries' and keys' sequence, arrays of layers, the numbers of these layers and of their heads, whether keys are left
// out).
Explained explain_weights(nb::handle sequences, nb::handle attentions, const std::string& title,
                          const std::string& start) {
  const auto text = [](nb::handle one) { return take_text(one, "tokens"); };
  const auto whole = [](nb::handle one) { return nb::cast<std::int64_t>(one); };
  std::vector<AttentionSequence> all;
  for (const nb::handle one : sequences) {
    all.push_back({.name = text(one[0]), .caption = text(one[1]), .tokens = vector_of<std::string>(one[2], text)});
  }
  std::vector<GivenAttention> given;
  std::vector<std::vector<std::int64_t>> layers, heads;
  for (const nb::handle one : attentions) {
    given.push_back(
        {.name = text(one[0]),
         .title = text(one[1]),
         .caption = text(one[2]),
         .queries = nb::cast<std::size_t>(one[3]),
         .keys = nb::cast<std::size_t>(one[4]),
         .layers = vector_of<Tensor>(
             one[5], [](nb::handle each) { return convert(take_floats(each, "weights").view, Dtype::f32); }),
         .is_part = nb::cast<bool>(one[8])});
    layers.push_back(vector_of<std::int64_t>(one[6], whole));
    heads.push_back(vector_of<std::int64_t>(one[7], whole));
  }
  Explained explained = run_released([&] {
    HeadSurvey found = survey_heads(GivenWeights(std::move(all), std::move(given)), {.maps = HeadMapsOptions{}});
    for (HeadSurvey::Entry& entry : found.heads) {
      auto& [layer, head, site] = entry.index;
      layer = layers[site][static_cast<std::size_t>(layer)];
      head = heads[site][static_cast<std::size_t>(head)];
    }
    return Explained{std::move(found), title};
  });
  explained.start = start;
  return explained;
}

Explained explain_text(const Embedder& embedder, nb::handle text) {
  const std::string given = take_text(text, "text");
  return run_released([&] {
    const Encoding encoding = embedder.tokenizer().encode(given);
    return survey(EncodedText(embedder.model(), encoding));
  });
}

Explained explain_translation(const Translator& translator, nb::handle text) {
  const std::string given = take_text(text, "text");
  return run_released([&] {
    const TranslateOptions options{.split = false};
    return survey(TranslatedText(translator, given, options));
  });
}

// The text, and the most probable token behind it.
Explained explain_written(const Generator& generator, nb::handle text) {
  const std::string given = take_text(text, "text");
  return run_released([&] {
    std::vector<std::int32_t> ids = generator.tokenizer().encode(given).ids;
    const GeneratorOptions options{.max_new_tokens = 1, .beams = 1, .greedy = true};
    ids.push_back(generator.generate_ids(std::span(&ids, 1), options).front().front().ids.front());
    return survey(WrittenText(generator.model(), &generator.tokenizer(), ids,
                              {.prompt = ids.size() - 1, .explain_prompt = true}));
  });
}

// Explains each output of a head; `make` makes the JudgedText.
template <class Make>
nb::list judged(const Make& make) {
  std::vector<Explained> all = run_released([&] {
    const JudgedText text = make();
    const Attentions& attentions = text.attentions();
    const std::vector<std::string>& names = attentions.sequences[measured_sequence(attentions)].tokens;
    std::vector<Explained> found;
    for (std::size_t i = 0; i < names.size(); ++i) {
      found.push_back({measure_token(text, static_cast<std::int64_t>(i)), "What " + names[i] + " came from"});
    }
    return found;
  });
  nb::list list;
  for (Explained& each : all) list.append(nb::cast(std::move(each)));
  return list;
}

// None is an empty one where it may be.
std::string text_or_empty(nb::handle text, const char* name, bool may_be_none = true) {
  return may_be_none && text.is_none() ? "" : take_text(text, name);
}

nb::list explain_class(const TextClassifier& classifier, nb::handle text, nb::handle second, nb::handle label) {
  TextOrPair given{take_text(text, "text")};
  if (!second.is_none()) given.second = take_text(second, "second");
  return judged([&, wanted = text_or_empty(label, "label")] { return JudgedText(classifier, given, wanted); });
}

// For heads that read two texts; the names are for messages.
template <class Model>
auto explains(const char* first_name, const char* second_name) {
  return [=](const Model& model, nb::handle first, nb::handle second) {
    const std::string one = take_text(first, first_name);
    const std::string two = text_or_empty(second, second_name, std::is_same_v<Model, FillMask>);
    return judged([&] { return JudgedText(model, one, two); });
  };
}

nb::list explain_tags(const Tagger& tagger, nb::handle text) {
  return judged([&, given = take_text(text, "text")] { return JudgedText(tagger, given); });
}

Explained explain_steps(const nb::kwargs& given) {
  Keywords keywords("explain", given);
  std::vector<std::pair<TensorView, Tensor*>> read;
  ExplainInput input;
  const std::pair<const char*, Tensor*> matrices[] = {{"inputs", &input.inputs},
                                                      {"w_query", &input.w_query},
                                                      {"w_key", &input.w_key},
                                                      {"w_value", &input.w_value},
                                                      {"w_out", &input.w_out}};
  bool any = false;
  for (const auto& [name, to] : matrices) {
    TensorView view;
    keywords.read_floats(name, view);
    if (view) *to = convert(view, Dtype::f64);
    any |= static_cast<bool>(view);
  }
  if (!any) input = worked_example();
  bool causal = false;
  keywords.read("heads", input.heads, "scale", input.scale, "causal", causal, "labels", input.labels);
  keywords.finish();
  if (causal) input.causal = Align::top_left;
  if (any) input.title = "Self-attention step by step";
  for (const auto& [name, to] : matrices) {
    if (to == &input.w_out || to->rank() > 1) continue;
    throw std::invalid_argument(std::string("explain: ") + name + " must be a matrix");
  }
  return run_released([&] {
    Explanation explanation = explain(input);
    std::string title = explanation.title;
    return Explained{std::move(explanation), std::move(title)};
  });
}

}  // namespace

void bind_explain(nb::module_& module) {
  add_class<Explained>(module, "_Explained")
      .def("title", [](const Explained& self) { return nb::str(self.title.data(), self.title.size()); })
      .def("text", &text_of_width, "width"_a)
      .def("json", &json_of)
      .def("html", &html_of, "command"_a);
  Described(module)
      .def("_explain_answer", explains<QuestionAnswerer>("question", "context"), "answerer"_a, "question"_a,
           "context"_a)
      .def("_explain_class", &explain_class, "classifier"_a, "text"_a, "second"_a, "label"_a)
      .def("_explain_fill", explains<FillMask>("text", "word"), "model"_a, "text"_a, "word"_a)
      .def("_explain_rank", explains<Reranker>("query", "text"), "reranker"_a, "query"_a, "text"_a)
      .def("_explain_tags", &explain_tags, "tagger"_a, "text"_a)
      .def("_explain_text", &explain_text, "embedder"_a, "text"_a)
      .def("_explain_translation", &explain_translation, "translator"_a, "text"_a)
      .def("_explain_weights", &explain_weights, "sequences"_a, "attentions"_a, "title"_a, "start"_a)
      .def("_explain_written", &explain_written, "generator"_a, "text"_a)
      .def("_explain_steps", &explain_steps, "keywords"_a);
}

}  // namespace qkv::python
