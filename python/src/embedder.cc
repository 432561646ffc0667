// The Embedder under qkv.Embedder: texts to a matrix of embeddings.
#include "qkv/pipelines/embedder.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "arguments.h"
#include "arrays.h"
#include "bindings.h"
#include "calls.h"
#include "generation.h"
#include "qkv/pipelines/fingerprint.h"

namespace qkv::python {
namespace {

// The operations of a text, counted at four bytes a token.
double operations_of(const Embedder& embedder, std::span<const std::string> texts) {
  double tokens = 0;
  for (const std::string& text : texts) {
    tokens += std::min(static_cast<double>(text.size()) / 4 + 2, static_cast<double>(embedder.max_length()));
  }
  return layers_operations(embedder.model().config(), tokens);
}

std::size_t take_size(nb::handle object, const char* name) {
  if (object.is_none()) return 0;
  const std::int64_t size = take_whole(object, name);
  if (size < 1) throw std::invalid_argument(fmt::format("embed: {} must be 1 or more, got {}", name, size));
  return static_cast<std::size_t>(size);
}

// What changes results.
EmbedOptions take_options(nb::handle prompt, nb::handle role, nb::handle max_length, nb::handle dimensions,
                          nb::handle normalize) {
  EmbedOptions options{.role = take_choice<TextRole>(role, "role", kTextRoles),
                       .max_length = take_size(max_length, "max_length"),
                       .dimensions = take_size(dimensions, "truncate_dim")};
  if (!prompt.is_none()) options.prompt = take_text(prompt, "prompt");
  if (!normalize.is_none()) options.normalize = take_flag(normalize, "normalize");
  return options;
}

// Embeddings of one kind, piece by piece.
struct Embeddings {
  Tensor vectors{};
  std::vector<SparseEmbedding> sparse{};
  std::vector<Tensor> tokens{};

  void add(EmbeddingKind kind, const Embedder& embedder, std::span<const std::string> texts, std::size_t begin,
           const EmbedOptions& options) {
    if (kind == EmbeddingKind::vector) {
      const auto first = static_cast<std::int64_t>(begin), end = first + std::ssize(texts);
      convert(embedder.embed(texts, options), MutableTensorView(vectors).slice(0, first, end));
    } else if (kind == EmbeddingKind::sparse) {
      std::ranges::move(embedder.embed_sparse(texts, options), std::back_inserter(sparse));
    } else {
      std::ranges::move(embedder.embed_tokens(texts, options), std::back_inserter(tokens));
    }
  }

  nb::object give(EmbeddingKind kind) {
    if (kind == EmbeddingKind::vector) return give_array(std::move(vectors), Kind::numpy);
    nb::list list;
    for (const auto& [words, weights] : sparse) {
      list.append(nb::make_tuple(give_array(Tensor::of({std::ssize(words)}, words), Kind::numpy),
                                 give_array(Tensor::of({std::ssize(weights)}, weights), Kind::numpy)));
    }
    for (Tensor& rows : tokens) list.append(give_array(std::move(rows), Kind::numpy));
    return list;
  }
};

// With `progress` in pieces; it is called after each with the number of texts done.
nb::object embed(const Embedder& embedder, nb::handle texts, nb::handle output, nb::handle threads, nb::handle progress,
                 nb::handle prompt, nb::handle role, nb::handle max_length, nb::handle dimensions,
                 nb::handle normalize) {
  const std::vector<std::string> all = take_texts(texts, "sentences");
  const auto kind = take_choice<EmbeddingKind>(output, "output", kEmbeddingKinds);
  EmbedOptions options = take_options(prompt, role, max_length, dimensions, normalize);
  options.threads = take_threads(threads);
  constexpr double kPieceOperations = 20 * kLongOperations;
  Embeddings found;
  if (kind == EmbeddingKind::vector) found.vectors = Tensor::uninitialized({std::ssize(all), embedder.dim(options)});
  if (all.empty()) found.add(kind, embedder, {}, 0, options);  // refuses what does not fit
  for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    double operations = 0;
    while (end < all.size() && (progress.is_none() || operations < kPieceOperations)) {
      operations += operations_of(embedder, std::span(all).subspan(end++, 1));
    }
    run_released(operations,
                 [&] { found.add(kind, embedder, std::span(all).subspan(begin, end - begin), begin, options); });
    if (!progress.is_none()) progress(end, all.size());
  }
  return found.give(kind);
}

// Scores of [queries, documents].
nb::object maxsim_of(nb::handle queries, nb::handle documents, nb::handle threads) {
  const auto take = [](nb::handle list, const char* name) {
    std::vector<Tensor> all;
    for (nb::handle each : nb::iter(list)) all.push_back(convert(take_floats(each, name).view, Dtype::f32));
    return all;
  };
  const std::vector<Tensor> own_queries = take(queries, "queries"), own_documents = take(documents, "documents");
  const int count = take_threads(threads);
  return give_array(run_released([&] { return maxsim(own_queries, own_documents, count); }), Kind::numpy);
}

std::string_view kind_of(const Embedder& embedder) {
  return std::ranges::find(kEmbeddingKinds, embedder.kind(), &std::pair<std::string_view, EmbeddingKind>::second)
      ->first;
}

nb::dict prompts_of(const Embedder& embedder) {
  nb::dict prompts;
  for (const auto& [name, prompt] : embedder.prompts()) prompts[give_text(name)] = give_text(prompt);
  return prompts;
}

nb::object fingerprint_of_embedder(const Embedder& embedder, nb::handle max_length, nb::handle dimensions) {
  FingerprintOptions options{.embedding = {.max_length = take_size(max_length, "max_length"),
                                           .dimensions = take_size(dimensions, "truncate_dim")}};
  // As encode() has it.
  if (embedder.kind() == EmbeddingKind::vector) options.embedding.normalize = false;
  return give_text(run_released([&] { return fingerprint(embedder, options); }));
}

}  // namespace

void bind_embedder(nb::module_& module) {
  add_model<Embedder>(module, "_Embedder")
      .def("embed", &embed, "texts"_a, "output"_a, "threads"_a, "progress"_a, "prompt"_a, "role"_a, "max_length"_a,
           "dimensions"_a, "normalize"_a)
      .def("fingerprint", &fingerprint_of_embedder, "max_length"_a, "dimensions"_a)
      .def("kind", [](const Embedder& embedder) { return nb::str(kind_of(embedder).data()); })
      .def("prompts", &prompts_of)
      .def(
          "model", [](const Embedder& embedder) -> const TextEncoder& { return embedder.model(); },
          nb::rv_policy::reference_internal)
      .def("dim", [](const Embedder& embedder) { return embedder.dim(); })
      .def("max_length", [](const Embedder& embedder) { return embedder.max_length(); });
  module.def("_maxsim", &maxsim_of, "queries"_a, "documents"_a, "threads"_a);
}

}  // namespace qkv::python
