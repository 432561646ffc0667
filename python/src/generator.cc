// The Generator under qkv.Generator.
#include "qkv/pipelines/generator.h"

#include <nanobind/stl/string.h>

#include <optional>
#include <stop_token>

#include "arguments.h"
#include "arrays.h"
#include "bindings.h"
#include "generation.h"

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
GeneratorOptions take_generator_options(const Generator& generator, nb::handle stop_strings, const nb::kwargs& given) {
  GeneratorOptions options;
  std::optional<double> min_p;
  Keywords keywords("generate", given);
  bool chat = false, raw = false;
  keywords.read("max_new_tokens", options.max_new_tokens, "max_length", options.max_length, "min_p", min_p, "greedy",
                options.greedy, "repetition_penalty", options.repetition_penalty, "beams", options.beams,
                "length_penalty", options.length_penalty, "nbest", options.nbest, "chat", chat, "raw", raw, "chunk",
                options.chunk, "session", options.session);
  if (chat && raw) throw std::invalid_argument("generate: chat and raw are two forms of a prompt; give one");
  if (chat || raw) options.form = chat ? PromptForm::chat : PromptForm::raw;
  constexpr std::pair<std::string_view, Drafts> kDrafts[] = {{"none", Drafts::none}, {"lookup", Drafts::lookup}};
  keywords.read("draft", options.drafts, kDrafts);
  constexpr std::pair<std::string_view, Dtype> kCaches[] = {
      {"f32", Dtype::f32}, {"bf16", Dtype::bf16}, {"f16", Dtype::f16}};
  keywords.read("cache", options.cache_type, kCaches);
  TensorView heads;
  keywords.read_integers("heads", heads);
  if (heads) options.heads = take_heads(heads);
  keywords.read_threads(options.threads);
  const Sampling begin = generator.sampling().value_or(Sampling{});
  options.sampling = read_sampling(keywords, begin);
  if (min_p) options.sampling = options.sampling.value_or(begin);
  if (min_p) options.sampling->min_p = *min_p;
  keywords.finish();
  options.stop_strings = take_texts(stop_strings, "stop_strings");
  return options;
}

const char* name_of(EndOfText end) {
  return end == EndOfText::end_token ? "end_token" : end == EndOfText::stop_string ? "stop_string" : "length";
}

nb::dict text_found(GeneratedText& each) {
  nb::list weights;
  for (Tensor& rows : each.weights) weights.append(give_array(std::move(rows), Kind::numpy));
  return dict_of("text", each.text, "ids", numbers_of(each.ids), "log_probability", each.log_probability, "score",
                 each.score, "end", name_of(each.end), "weights", weights);
}

nb::list generate_texts(const Generator& generator, nb::handle prompts, nb::handle stop_strings,
                        const nb::kwargs& keywords) {
  const std::vector<std::string> all = take_texts(prompts, "prompts");
  const GeneratorOptions options = take_generator_options(generator, stop_strings, keywords);
  return found_by([&] { return generator.generate(all, options); }, text_found);
}

nb::list generate_ids(const Generator& generator, nb::handle prompts, nb::handle stop_strings,
                      const nb::kwargs& keywords) {
  const std::vector<std::vector<std::int32_t>> all = take_id_lists(prompts, "prompts");
  const GeneratorOptions options = take_generator_options(generator, stop_strings, keywords);
  return found_by([&] { return generator.generate_ids(all, options); }, text_found);
}

nb::list score_texts(const Generator& generator, nb::handle texts, nb::handle threads) {
  const std::vector<std::string> all = take_texts(texts, "texts");
  const TextScoreOptions options{.threads = take_threads(threads)};
  nb::list results;
  for (const ScoredText& one : run_released([&] { return generator.score(all, options); })) {
    nb::list log_probabilities, ranks;
    for (const TokenScore& token : one.tokens) {
      log_probabilities.append(token.log_probability);
      ranks.append(token.rank);
    }
    results.append(dict_of("ids", numbers_of(one.ids), "log_probabilities", log_probabilities, "ranks", ranks,
                           "log_probability", one.log_probability, "bytes", one.bytes, "bits_per_byte",
                           one.bits_per_byte, "perplexity", one.perplexity));
  }
  return results;
}

// Passes each new part of the text to a function, which must not raise; ends when the source is asked to stop.
void stream(const Generator& generator, const std::string& prompt, nb::handle stop_strings, nb::handle on_text,
            const std::stop_source& stop, const nb::kwargs& keywords) {
  GeneratorOptions options = take_generator_options(generator, stop_strings, keywords);
  options.stop = stop.get_token();
  options.on_text = [on_text](std::size_t, std::string_view text) {
    const nb::gil_scoped_acquire lock;
    on_text(nb::str(text.data(), text.size()));
  };
  run_released([&] { generator.generate(prompt, options); });
}

}  // namespace

void bind_generator(nb::module_& module) {
  add_class<std::stop_source>(module, "_StopSource")
      .def("__init__", [](std::stop_source* place) { new (place) std::stop_source(); })
      .def("request_stop", [](std::stop_source& source) { source.request_stop(); });
  add_model<Generator>(module, "_Generator")
      .def("generate", &generate_texts, "prompts"_a, "stop_strings"_a, "keywords"_a)
      .def("generate_ids", &generate_ids, "prompts"_a, "stop_strings"_a, "keywords"_a)
      .def("score", &score_texts, "texts"_a, "threads"_a)
      .def("stream", &stream, "prompt"_a, "stop_strings"_a, "on_text"_a, "stop"_a, "keywords"_a);
}

}  // namespace qkv::python
