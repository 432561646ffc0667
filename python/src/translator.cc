// The Translator under qkv.Translator.
#include "qkv/pipelines/translator.h"

#include <fmt/format.h>

#include <memory>

#include "arguments.h"
#include "arrays.h"
#include "bindings.h"
#include "calls.h"

namespace qkv::python {
namespace {

TranslateOptions take_translate_options(const nb::kwargs& keywords) {
  TranslateOptions options;
  Sampling sampling;
  bool samples = false;
  for (const auto& [key, value] : keywords) {
    const std::string name = take_text(key, "a keyword");
    if (name == "nbest") {
      options.nbest = take_whole(value, name);
    } else if (name == "split") {
      options.split = take_flag(value, name);
    } else if (name == "threads") {
      options.threads = take_threads(value);
    } else if (name == "line") {
      options.stream.line = take_seed(value, name);
    } else if (value.is_none()) {
      continue;
    } else if (name == "beams") {
      options.beams = take_whole(value, name);
    } else if (name == "max_length") {
      options.max_length = take_whole(value, name);
    } else if (name == "length_penalty") {
      options.length_penalty = take_number(value, name);
    } else if (name == "temperature") {
      sampling.temperature = take_number(value, name);
      samples = true;
    } else if (name == "top_k") {
      sampling.top_k = take_whole(value, name);
      samples = true;
    } else if (name == "top_p") {
      sampling.top_p = take_number(value, name);
      samples = true;
    } else if (name == "seed") {
      sampling.seed = take_seed(value, name);
      samples = true;
    } else {
      throw TypeError(fmt::format("unexpected keyword argument '{}'", name));
    }
  }
  if (samples) options.sampling = sampling;
  return options;
}

nb::dict dict_of(const Translation& translation) {
  nb::list ids, sentences;
  for (const std::int64_t id : translation.ids) ids.append(nb::int_(id));
  for (const Translation& sentence : translation.sentences) sentences.append(dict_of(sentence));
  nb::dict result;
  result["text"] = nb::str(translation.text.c_str(), translation.text.size());
  result["ids"] = ids;
  result["log_probability"] = translation.log_probability;
  result["score"] = translation.score;
  result["unsure"] = translation.unsure;
  result["cut"] = translation.cut;
  result["source"] = nb::str(translation.source.c_str(), translation.source.size());
  result["sentences"] = sentences;
  return result;
}

nb::dict dict_of(const Hypothesis& hypothesis) {
  nb::list ids;
  for (const std::int32_t id : hypothesis.tokens) ids.append(nb::int_(id));
  nb::dict result;
  result["ids"] = ids;
  result["log_probability"] = hypothesis.log_probability;
  result["score"] = hypothesis.score;
  return result;
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
    for (const auto& each : best) list.append(dict_of(each));
    results.append(list);
  }
  return results;
}

nb::list translate(const Translator& translator, nb::handle texts, const nb::kwargs& keywords) {
  const std::vector<std::string> all = take_texts(texts, "texts");
  return best_of(keywords, [&](const TranslateOptions& options) { return translator.translate(all, options); });
}

nb::list generate(const Translator& translator, nb::handle sources, const nb::kwargs& keywords) {
  if (PyUnicode_Check(sources.ptr()) || !nb::hasattr(sources, "__iter__")) {
    throw TypeError("sources must be a list of lists of ids, got " + name_of_type(sources));
  }
  std::vector<std::vector<std::int32_t>> all;
  for (nb::handle source : nb::iter(sources)) {
    std::vector<std::int32_t>& ids = all.emplace_back();
    for (const std::int64_t id : take_whole_numbers(source, fmt::format("sources[{}]", all.size() - 1))) {
      if (id < 0 || id >= Tokenizer::kAnyVocab) throw std::invalid_argument("ids must be from 0 to 2^31 - 1");
      ids.push_back(static_cast<std::int32_t>(id));
    }
  }
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
