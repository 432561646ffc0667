// qkv embed: one sentence per line on standard input, one embedding per line on standard output.
#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <memory>
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
  ModelStorage storage{};
  bool json = false;
  TextLineOptions lines{};
};

// `cut`: the tokens of the text that the model did not read. As JSON if there is a fingerprint.
void write_embedding(const float* values, std::int64_t count, std::int64_t cut, const std::string& fingerprint) {
  const bool json = !fingerprint.empty();
  fmt::memory_buffer text;
  const auto to = std::back_inserter(text);
  fmt::format_to(to, "{}", json ? "{\"embedding\": [" : "");
  for (std::int64_t i = 0; i < count; ++i) {
    fmt::format_to(to, "{}", i == 0 ? "" : json ? ", " : " ");
    if (json && !std::isfinite(values[i])) {
      fmt::format_to(to, "{}", io::json_number(values[i]).dump());
    } else {
      fmt::format_to(to, "{}", values[i]);
    }
  }
  if (json) {
    fmt::format_to(to, "]{}, \"fingerprint\": \"{}\"}}", cut > 0 ? fmt::format(", \"cut\": {}", cut) : "", fingerprint);
  }
  text.push_back('\n');
  std::cout.write(text.data(), static_cast<std::streamsize>(text.size()));
}

void embed(const EmbedRequest& request) {
  const Embedder embedder = Embedder::load(find_model(request.model), request.storage.of_model());
  const std::string fingerprinted = request.json ? fingerprint(embedder, {.stop = interruption()}) : "";
  std::ios::sync_with_stdio(false);
  CutTexts all_cut;
  InputLines input(request.lines);
  for (std::vector<std::string> lines; input.next(lines);) {
    check_interruption();
    std::vector<std::int64_t> cut(lines.size());
    const Tensor embeddings = embedder.embed(lines, {.cut = cut, .stop = interruption()});
    for (std::size_t i = 0; i < lines.size(); ++i) {
      write_embedding(embeddings.data<float>() + static_cast<std::int64_t>(i) * embedder.dim(), embedder.dim(), cut[i],
                      fingerprinted);
      all_cut.add(cut[i]);
    }
    std::cout.flush();
  }
  all_cut.warn("qkv embed", embedder.max_length());
}

}  // namespace

void add_embed(Command& program) {
  Command& command = program.add_command(
      "embed", "Embed sentences: one per line on standard input, one embedding per line on standard output");
  command.add_examples(
      {{"One embedding per line of a file", "qkv embed --model sentence-transformers/all-MiniLM-L6-v2 < texts.txt"}});
  const auto request = std::make_shared<EmbedRequest>();
  command.add(
      {{"--model", file(request->model, "FOLDER"),
        "Folder of the model: config.json, model.safetensors, tokenizer.json", required()},
       {"--json", flag(request->json),
        "Write one {\"embedding\": [...], \"fingerprint\": ...} per line, with \"cut\": N if the last N tokens did not "
        "fit the model"}});
  command.add(line_options(request->lines));
  command.add(storage_options(request->storage));
  command.on_run([request] { embed(*request); });
}

}  // namespace qkv::app
