// The Translator under qkv.Translator.
#include "qkv/pipelines/translator.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "arguments.h"
#include "arrays.h"
#include "bindings.h"
#include "calls.h"
#include "keywords.h"

namespace qkv::python {
namespace {

TranslateOptions take_translate_options(const nb::kwargs& given) {
  TranslateOptions options;
  std::optional<double> temperature, top_p;
  std::optional<std::int64_t> top_k;
  std::optional<std::uint64_t> seed, line;
  Keywords keywords("translate", given);
  keywords.read("nbest", options.nbest);
  keywords.read("split", options.split);
  keywords.read_threads(options.threads);
  keywords.read("line", line);
  keywords.read("beams", options.beams);
  keywords.read("max_length", options.max_length);
  keywords.read("length_penalty", options.length_penalty);
  keywords.read("temperature", temperature);
  keywords.read("top_k", top_k);
  keywords.read("top_p", top_p);
  keywords.read("seed", seed);
  keywords.finish();
  options.stream.line = line.value_or(0);
  if (temperature || top_k || top_p || seed) {
    Sampling& sampling = options.sampling.emplace();
    sampling.temperature = temperature.value_or(sampling.temperature);
    sampling.top_k = top_k.value_or(sampling.top_k);
    sampling.top_p = top_p.value_or(sampling.top_p);
    sampling.seed = seed.value_or(sampling.seed);
  }
  return options;
}

nb::dict found_of(const Translation& translation) {
  nb::list ids, sentences;
  for (const std::int64_t id : translation.ids) ids.append(nb::int_(id));
  for (const Translation& sentence : translation.sentences) sentences.append(found_of(sentence));
  return dict_of("text", translation.text, "ids", ids, "log_probability", translation.log_probability, "score",
                 translation.score, "unsure", translation.unsure, "cut", translation.cut, "source", translation.source,
                 "sentences", sentences);
}

nb::dict found_of(const Hypothesis& hypothesis) {
  nb::list ids;
  for (const std::int32_t id : hypothesis.tokens) ids.append(nb::int_(id));
  return dict_of("ids", ids, "log_probability", hypothesis.log_probability, "score", hypothesis.score);
}

// Runs `find` and gives the best that it found of each source, a dict each.
template <class Find>
nb::list best_of(const nb::kwargs& keywords, const Find& find) {
  TranslateOptions options = take_translate_options(keywords);
  decltype(find(options)) found;
  run_released(kLongOperations, [&] { found = find(options); });
  nb::list results;
  for (const auto& best : found) {
    nb::list list;
    for (const auto& each : best) list.append(found_of(each));
    results.append(list);
  }
  return results;
}

nb::list translate(const Translator& translator, nb::handle texts, const nb::kwargs& keywords) {
  const std::vector<std::string> all = take_texts(texts, "texts");
  return best_of(keywords, [&](const TranslateOptions& options) { return translator.translate(all, options); });
}

nb::list generate(const Translator& translator, nb::handle sources, const nb::kwargs& keywords) {
  const std::vector<std::vector<std::int32_t>> all = take_id_lists(sources, "sources");
  return best_of(keywords, [&](const TranslateOptions& options) { return translator.generate(all, options); });
}

}  // namespace

void bind_translator(nb::module_& module) {
  nb::class_<Translator>(module, "_Translator")
      .def(
          "__init__",
          [](Translator* place, nb::handle folder, nb::handle weights) {
            const std::string path = take_text(folder, "folder");
            const auto chosen = take_choice<WeightStorage>(weights, "weights", kWeightStorages);
            load_released(place, [&] { return Translator::load(path, chosen); });
          },
          "folder"_a, "weights"_a, nb::sig("def __init__(self, folder: str, weights: str) -> None"))
      .def("translate", &translate, "texts"_a, "keywords"_a,
           nb::sig("def translate(self, texts: collections.abc.Iterable[str], **keywords: object) -> "
                   "list[list[dict[str, typing.Any]]]"))
      .def("generate", &generate, "sources"_a, "keywords"_a,
           nb::sig("def generate(self, sources: collections.abc.Iterable[collections.abc.Iterable[int]], **keywords: "
                   "object) -> list[list[dict[str, typing.Any]]]"))
      .def(
          "tokenizer", [](const Translator& translator) { return Tokenizer(translator.tokenizer()); },
          nb::sig("def tokenizer(self) -> _Tokenizer"))
      .def(
          "target_tokenizer", [](const Translator& translator) { return Tokenizer(translator.target_tokenizer()); },
          nb::sig("def target_tokenizer(self) -> _Tokenizer"));
}

}  // namespace qkv::python
