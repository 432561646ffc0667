// qkv fill: the words that a masked one may be.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "commands.h"
#include "inputs/lines.h"
#include "inputs/options.h"
#include "qkv/models/find_model.h"
#include "qkv/pipelines/fill_mask.h"
#include "signals.h"

namespace qkv::app {
namespace {

struct FillRequest {
  std::string model{};
  std::string text{};
  ModelStorage storage{};
  std::int64_t top = 5;
  bool json = false;
};

void fill(const FillRequest& request) {
  const std::string masked = text_of_option("--text", request.text);
  const FillMask model = FillMask::load(find_model(request.model), request.storage.of_model());
  for (const auto& words : model.fill(masked, request.top, {.stop = interruption()})) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    std::string line;
    for (const auto& [word, probability] : words) {
      list.push_back({{"word", word}, {"probability", probability}});
      line += fmt::format("{}{} {:.4f}", line.empty() ? "" : ", ", word, probability);
    }
    fmt::print("{}\n", request.json ? nlohmann::ordered_json{{"words", list}}.dump() : line);
  }
}

}  // namespace

void add_fill(Command& program) {
  Command& command = program.add_command("fill", "Say which words the masked ones of a text may be, a line for each");
  command.add_examples(
      {{"The words that may be masked", "qkv fill --model google-bert/bert-base-uncased --text 'The [MASK] sat.'"}});
  const auto request = std::make_shared<FillRequest>();
  command.add(
      {{"--model", file(request->model, "FOLDER"),
        "Folder of a model for masked words: config.json, model.safetensors, tokenizer.json", required()},
       {"--text", text(request->text, "TEXT"), "A text with [MASK] or <mask>, as its tokenizer has it", required()},
       {"--top", size(request->top), "Number of words, most probable first (default: 5)"},
       {"--json", flag(request->json), "Write one JSON object per line"}});
  command.add(storage_options(request->storage));
  command.on_run([request] { fill(*request); });
}

}  // namespace qkv::app
