// The Translator under qkv.Translator.
#include "qkv/pipelines/translator.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "arguments.h"
#include "arrays.h"
#include "bindings.h"
#include "generation.h"

namespace qkv::python {
namespace {

TranslateOptions take_translate_options(const nb::kwargs& given) {
  TranslateOptions options;
  std::optional<std::uint64_t> line;
  Keywords keywords("translate", given);
  keywords.read("nbest", options.nbest, "split", options.split, "line", line, "beams", options.beams, "max_length",
                options.max_length, "length_penalty", options.length_penalty);
  keywords.read_threads(options.threads);
  options.sampling = read_sampling(keywords, {});
  keywords.finish();
  options.stream.line = line.value_or(0);
  return options;
}

nb::dict translation_found(const Translation& translation) {
  nb::list sentences;
  for (const Translation& sentence : translation.sentences) sentences.append(translation_found(sentence));
  return dict_of("text", translation.text, "ids", numbers_of(translation.ids), "log_probability",
                 translation.log_probability, "score", translation.score, "unsure", translation.unsure, "cut",
                 translation.cut, "source", translation.source, "sentences", sentences);
}

nb::dict hypothesis_found(const Hypothesis& hypothesis) {
  return dict_of("ids", numbers_of(hypothesis.tokens), "log_probability", hypothesis.log_probability, "score",
                 hypothesis.score);
}

nb::list translate_texts(const Translator& translator, nb::handle texts, const nb::kwargs& keywords) {
  const std::vector<std::string> all = take_texts(texts, "texts");
  const TranslateOptions options = take_translate_options(keywords);
  return found_by([&] { return translator.translate(all, options); }, translation_found);
}

nb::list generate_hypotheses(const Translator& translator, nb::handle sources, const nb::kwargs& keywords) {
  const std::vector<std::vector<std::int32_t>> all = take_id_lists(sources, "sources");
  const TranslateOptions options = take_translate_options(keywords);
  return found_by([&] { return translator.generate(all, options); }, hypothesis_found);
}

}  // namespace

void bind_translator(nb::module_& module) {
  add_model<Translator>(module, "_Translator")
      .def("translate", &translate_texts, "texts"_a, "keywords"_a)
      .def("generate", &generate_hypotheses, "sources"_a, "keywords"_a)
      .def("target_tokenizer", [](const Translator& translator) { return Tokenizer(translator.target_tokenizer()); });
}

}  // namespace qkv::python
