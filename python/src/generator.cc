// The Generator under qkv.Generator.
#include "qkv/pipelines/generator.h"

#include <nanobind/stl/string.h>

#include <optional>
#include <stop_token>

#include "arguments.h"
#include "arrays.h"
#include "bindings.h"
#include "calls.h"
#include "keywords.h"

namespace qkv::python {
namespace {

std::vector<LayerHead> take_heads(const TensorView& given) {
  if (given.element_count() == 0) return {};
  if (given.rank() != 2 || given.size(1) != 2) {
    throw std::invalid_argument("generate: heads must be pairs (layer, head), got " + to_string(given.shape()));
  }
  const Tensor pairs = convert(given, Dtype::i64);
  std::vector<LayerHead> heads;
  for (std::int64_t i = 0; i < pairs.size(0); ++i) {
    heads.push_back({pairs.data<std::int64_t>()[2 * i], pairs.data<std::int64_t>()[2 * i + 1]});
  }
  return heads;
}

// Sampling begins as the folder has it.
GeneratorOptions take_generator_options(const Generator& generator, const nb::kwargs& given) {
  GeneratorOptions options;
  std::optional<double> temperature, top_p, min_p;
  std::optional<std::int64_t> top_k;
  std::optional<std::uint64_t> seed;
  Keywords keywords("generate", given);
  keywords.read("max_new_tokens", options.max_new_tokens);
  keywords.read("max_length", options.max_length);
  keywords.read("temperature", temperature);
  keywords.read("top_k", top_k);
  keywords.read("top_p", top_p);
  keywords.read("min_p", min_p);
  keywords.read("seed", seed);
  keywords.read("greedy", options.greedy);
  keywords.read("repetition_penalty", options.repetition_penalty);
  keywords.read("beams", options.beams);
  keywords.read("length_penalty", options.length_penalty);
  keywords.read("nbest", options.nbest);
  keywords.read("chunk", options.chunk);
  TensorView heads;
  keywords.read_integers("heads", heads);
  if (heads) options.heads = take_heads(heads);
  keywords.read_threads(options.threads);
  keywords.finish();
  if (temperature || top_k || top_p || min_p || seed) {
    Sampling& sampling = options.sampling.emplace(generator.sampling().value_or(Sampling{}));
    sampling.temperature = temperature.value_or(sampling.temperature);
    sampling.top_k = top_k.value_or(sampling.top_k);
    sampling.top_p = top_p.value_or(sampling.top_p);
    sampling.min_p = min_p.value_or(sampling.min_p);
    sampling.seed = seed.value_or(sampling.seed);
  }
  return options;
}

const char* name_of(EndOfText end) {
  return end == EndOfText::end_token ? "end_token" : end == EndOfText::stop_string ? "stop_string" : "length";
}

// Of each prompt its texts, a dict each.
template <class Find>
nb::list texts_of(const Find& find) {
  std::vector<std::vector<GeneratedText>> found;
  run_released(kLongOperations, [&] { found = find(); });
  nb::list results;
  for (auto& best : found) {
    nb::list list;
    for (GeneratedText& each : best) {
      nb::list ids;
      for (const std::int64_t id : each.ids) ids.append(nb::int_(id));
      nb::list weights;
      for (Tensor& rows : each.weights) weights.append(give_array(std::move(rows), Kind::numpy));
      list.append(dict_of("text", each.text, "ids", ids, "log_probability", each.log_probability, "score", each.score,
                          "end", name_of(each.end), "weights", weights));
    }
    results.append(list);
  }
  return results;
}

nb::list generate_texts(const Generator& generator, nb::handle prompts, nb::handle stop_strings,
                        const nb::kwargs& keywords) {
  const std::vector<std::string> all = take_texts(prompts, "prompts");
  GeneratorOptions options = take_generator_options(generator, keywords);
  options.stop_strings = take_texts(stop_strings, "stop_strings");
  return texts_of([&] { return generator.generate(all, options); });
}

nb::list generate_ids(const Generator& generator, nb::handle prompts, nb::handle stop_strings,
                      const nb::kwargs& keywords) {
  const std::vector<std::vector<std::int32_t>> all = take_id_lists(prompts, "prompts");
  GeneratorOptions options = take_generator_options(generator, keywords);
  options.stop_strings = take_texts(stop_strings, "stop_strings");
  return texts_of([&] { return generator.generate_ids(all, options); });
}

// What the text grows by goes to a function, which must not raise; writing ends where the source is asked to stop.
void stream(const Generator& generator, const std::string& prompt, nb::handle stop_strings, nb::handle on_text,
            const std::stop_source& stop, const nb::kwargs& keywords) {
  GeneratorOptions options = take_generator_options(generator, keywords);
  options.stop_strings = take_texts(stop_strings, "stop_strings");
  options.stop = stop.get_token();
  options.on_text = [on_text](std::size_t, std::string_view text) {
    const nb::gil_scoped_acquire lock;
    on_text(nb::str(text.data(), text.size()));
  };
  run_released(kLongOperations, [&] { generator.generate(prompt, options); });
}

}  // namespace

void bind_generator(nb::module_& module) {
  nb::class_<std::stop_source>(module, "_StopSource")
      .def(nb::init<>())
      .def("request_stop", [](std::stop_source& source) { source.request_stop(); });
  nb::class_<Generator>(module, "_Generator")
      .def(
          "__init__",
          [](Generator* place, nb::handle folder, nb::handle weights) {
            const std::string path = take_text(folder, "folder");
            const auto chosen = take_choice<WeightStorage>(weights, "weights", kWeightStorages);
            load_released(place, [&] { return Generator::load(path, chosen); });
          },
          "folder"_a, "weights"_a, nb::sig("def __init__(self, folder: str, weights: str) -> None"))
      .def("generate", &generate_texts, "prompts"_a, "stop_strings"_a, "keywords"_a,
           nb::sig("def generate(self, prompts: collections.abc.Iterable[str], stop_strings: "
                   "collections.abc.Iterable[str], **keywords: object) -> list[list[dict[str, typing.Any]]]"))
      .def("generate_ids", &generate_ids, "prompts"_a, "stop_strings"_a, "keywords"_a,
           nb::sig("def generate_ids(self, prompts: collections.abc.Iterable[collections.abc.Iterable[int]], "
                   "stop_strings: collections.abc.Iterable[str], **keywords: object) -> list[list[dict[str, "
                   "typing.Any]]]"))
      .def("stream", &stream, "prompt"_a, "stop_strings"_a, "on_text"_a, "stop"_a, "keywords"_a,
           nb::sig("def stream(self, prompt: str, stop_strings: collections.abc.Iterable[str], on_text: "
                   "collections.abc.Callable[[str], object], stop: _StopSource, **keywords: object) -> None"))
      .def(
          "tokenizer", [](const Generator& generator) { return Tokenizer(generator.tokenizer()); },
          nb::sig("def tokenizer(self) -> _Tokenizer"));
}

}  // namespace qkv::python
