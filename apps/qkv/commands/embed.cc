// qkv embed: one sentence per line on standard input, one embedding per line on standard output.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "commands.h"
#include "inputs/lines.h"
#include "inputs/options.h"
#include "io/json/json_events.h"
#include "qkv/models/find_model.h"
#include "qkv/pipelines/fingerprint.h"
#include "signals.h"

namespace qkv::app {
namespace {

struct EmbedRequest {
  std::string model{};
  std::optional<std::string> prompt{};
  std::int64_t dimensions = 0;
  ModelStorage storage{};
  bool json = false;
  TextLineOptions lines{};
};

// Numbers side by side: in a list as JSON.
void write_numbers(fmt::memory_buffer& text, std::span<const float> values, bool json) {
  const auto to = std::back_inserter(text);
  fmt::format_to(to, "{}", json ? "[" : "");
  for (std::size_t i = 0; i < values.size(); ++i) {
    fmt::format_to(to, "{}", i == 0 ? "" : json ? ", " : " ");
    if (json && !std::isfinite(values[i])) {
      fmt::format_to(to, "{}", io::json_number(values[i]).dump());
    } else {
      fmt::format_to(to, "{}", values[i]);
    }
  }
  fmt::format_to(to, "{}", json ? "]" : "");
}

// The number and weight of each word.
void write_embedding(fmt::memory_buffer& text, const SparseEmbedding& sparse, bool json) {
  if (json) {
    fmt::format_to(std::back_inserter(text), "{{\"indices\": [{}], \"values\": ", fmt::join(sparse.words, ", "));
    write_numbers(text, sparse.weights, true);
    return text.push_back('}');
  }
  for (std::size_t i = 0; i < sparse.words.size(); ++i) {
    fmt::format_to(std::back_inserter(text), "{}{}:{}", i == 0 ? "" : " ", sparse.words[i], sparse.weights[i]);
  }
}

// One row after the other: in a list as JSON, else with tabs between them.
void write_embedding(fmt::memory_buffer& text, const Tensor& rows, bool json) {
  const auto columns = static_cast<std::size_t>(rows.size(1));
  if (json) text.push_back('[');
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    fmt::format_to(std::back_inserter(text), "{}", i == 0 ? "" : json ? ", " : "\t");
    write_numbers(text, {rows.view().slice(0, i, i + 1).data<float>(), columns}, json);
  }
  if (json) text.push_back(']');
}

// A line of each text. `cut`: the tokens of it that the model did not read. As JSON if there is a fingerprint.
template <class Embeddings, class Write>
void write_lines(const Embeddings& embeddings, std::span<const std::int64_t> cut, const std::string& fingerprint,
                 const Write& write) {
  const bool json = !fingerprint.empty();
  for (std::size_t i = 0; i < cut.size(); ++i) {
    fmt::memory_buffer text;
    const auto to = std::back_inserter(text);
    fmt::format_to(to, "{}", json ? "{\"embedding\": " : "");
    write(text, embeddings, i);
    if (json) {
      const std::string missing = cut[i] > 0 ? fmt::format(", \"cut\": {}", cut[i]) : "";
      fmt::format_to(to, "{}, \"fingerprint\": \"{}\"}}", missing, fingerprint);
    }
    text.push_back('\n');
    std::cout.write(text.data(), static_cast<std::streamsize>(text.size()));
  }
  flush_output();
}

void write_embeddings(const Embedder& embedder, std::span<const std::string> lines, const EmbedOptions& options,
                      const std::string& fingerprint) {
  const bool json = !fingerprint.empty();
  const auto write_each = [&](fmt::memory_buffer& text, const auto& all, std::size_t i) {
    write_embedding(text, all[i], json);
  };
  switch (embedder.kind()) {
    case EmbeddingKind::vector:
      return write_lines(embedder.embed(lines, options), options.cut, fingerprint,
                         [&](fmt::memory_buffer& text, const Tensor& all, std::size_t i) {
                           const auto columns = static_cast<std::size_t>(all.size(1));
                           write_numbers(text, {all.data<float>() + i * columns, columns}, json);
                         });
    case EmbeddingKind::sparse:
      return write_lines(embedder.embed_sparse(lines, options), options.cut, fingerprint, write_each);
    case EmbeddingKind::tokens:
      return write_lines(embedder.embed_tokens(lines, options), options.cut, fingerprint, write_each);
  }
}

// --prompt names one of the folder's, or is one.
EmbedOptions options_of(const EmbedRequest& request, const Embedder& embedder) {
  EmbedOptions options{.dimensions = static_cast<std::size_t>(request.dimensions)};
  if (request.dimensions > 0 && embedder.kind() == EmbeddingKind::tokens) {
    throw UsageError("--dimensions does not apply to a model with one vector per token");
  }
  const std::int64_t whole = embedder.dim({.dimensions = std::numeric_limits<std::int64_t>::max()});
  if (request.dimensions > whole) {
    throw UsageError("--dimensions",
                     fmt::format("is {}; an embedding of this model has {} numbers", request.dimensions, whole));
  }
  if (!request.prompt) return options;
  const auto named = embedder.prompts().find(*request.prompt);
  options.prompt = named == embedder.prompts().end() ? *request.prompt : named->second;
  for (const auto& [name, role] : kTextRoles) {
    if (name == request.prompt) options.role = role;
  }
  return options;
}

void embed(const EmbedRequest& request) {
  const Embedder embedder = Embedder::load(find_model(request.model), request.storage.of_model());
  EmbedOptions options = options_of(request, embedder);
  options.stop = interruption();
  const std::string fingerprinted =
      request.json ? fingerprint(embedder, {.embedding = options, .stop = interruption()}) : "";
  std::ios::sync_with_stdio(false);
  CutTexts all_cut;
  InputLines input(request.lines);
  for (std::vector<std::string> lines; input.next(lines);) {
    check_interruption();
    std::vector<std::int64_t> cut(lines.size());
    options.cut = cut;
    write_embeddings(embedder, lines, options, fingerprinted);
    for (const std::int64_t tokens : cut) all_cut.add(tokens);
  }
  all_cut.warn("qkv embed", embedder.max_length(options));
}

}  // namespace

void add_embed(Command& program) {
  Command& command = program.add_command(
      "embed", "Embed sentences: one per line on standard input, one embedding per line on standard output");
  command.add_examples(
      {{"One embedding per line of a file", "qkv embed --model sentence-transformers/all-MiniLM-L6-v2 < texts.txt"},
       {"Search queries", "qkv embed --model intfloat/e5-small-v2 --prompt query < questions.txt"}});
  const auto request = std::make_shared<EmbedRequest>();
  command.add(
      {{"--model", file(request->model, "FOLDER"),
        "Folder of the model: config.json, model.safetensors, tokenizer.json", required()},
       {"--prompt", text(request->prompt, "NAME|TEXT"),
        "Prefix of each text: the folder's prompt of this name, else this text (default: the folder's default)"},
       {"--dimensions", size(request->dimensions),
        "Numbers to keep of an embedding: the first ones, or the largest of a sparse one (default: the folder's, "
        "or all)"},
       {"--json", flag(request->json),
        "Write one {\"embedding\": [...], \"fingerprint\": ...} per line, with \"cut\": N if the last N tokens did not "
        "fit the model"}});
  command.add(line_options(request->lines));
  command.add(storage_options(request->storage));
  command.on_run([request] { embed(*request); });
}

}  // namespace qkv::app
