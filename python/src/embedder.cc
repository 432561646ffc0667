// The Embedder under qkv.Embedder: texts to a matrix of embeddings.
#include "qkv/pipelines/embedder.h"

#include <span>

#include "arguments.h"
#include "arrays.h"
#include "bindings.h"
#include "calls.h"
#include "generation.h"

namespace qkv::python {
namespace {

// Of the products with the weights of a text's layers, at about four bytes a token.
double operations_of(const Embedder& embedder, std::span<const std::string> texts) {
  double tokens = 0;
  for (const std::string& text : texts) {
    tokens += std::min(static_cast<double>(text.size()) / 4 + 2, static_cast<double>(embedder.max_length()));
  }
  return layers_operations(embedder.model().config(), tokens);
}

// With `progress` in pieces, after each of which it is told how many texts are done.
nb::object embed(const Embedder& embedder, nb::handle texts, nb::handle threads, nb::handle progress, nb::handle prompt,
                 nb::handle max_length) {
  const std::vector<std::string> all = take_texts(texts, "texts");
  EmbedOptions options{.threads = take_threads(threads)};
  if (!max_length.is_none()) {
    const std::int64_t length = take_whole(max_length, "max_length");
    if (length < 1) throw std::invalid_argument("embed: max_length must be 1 or more");
    options.max_length = static_cast<std::size_t>(length);
  }
  if (!prompt.is_none()) options.prompt = take_text(prompt, "prompt");
  constexpr double kPieceOperations = 20 * kLongOperations;
  Tensor out = Tensor::uninitialized({static_cast<std::int64_t>(all.size()), embedder.dim()});
  if (all.empty()) embedder.embed({}, options);  // refuses what does not fit
  for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    double operations = 0;
    while (end < all.size() && (progress.is_none() || operations < kPieceOperations)) {
      operations += operations_of(embedder, std::span(all).subspan(end++, 1));
    }
    run_released(operations, [&] {
      const Tensor piece = embedder.embed(std::span(all).subspan(begin, end - begin), options);
      convert(piece, MutableTensorView(out).slice(0, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)));
    });
    if (!progress.is_none()) progress(end, all.size());
  }
  return give_array(std::move(out), Kind::numpy);
}

}  // namespace

void bind_embedder(nb::module_& module) {
  add_class<Embedder>(module, "_Embedder")
      .def("__init__", &load_weights<Embedder>, "folder"_a, "weights"_a, "precision"_a)
      .def("embed", &embed, "texts"_a, "threads"_a, "progress"_a, "prompt"_a, "max_length"_a)
      .def("tokenizer", [](const Embedder& embedder) { return Tokenizer(embedder.tokenizer()); })
      .def(
          "model", [](const Embedder& embedder) -> const TextEncoder& { return embedder.model(); },
          nb::rv_policy::reference_internal)
      .def("dim", [](const Embedder& embedder) { return embedder.dim(); })
      .def("max_length", [](const Embedder& embedder) { return embedder.max_length(); });
}

}  // namespace qkv::python
