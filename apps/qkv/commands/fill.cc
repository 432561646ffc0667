// qkv fill: the words that a masked one may be.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "commands.h"
#include "explained_head.h"
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
  std::string word{};  // that is explained; empty: the most probable one
  ExplainedHead explained{};
};

void fill(const Command& command, FillRequest request) {
  const std::string masked = text_of_option("--text", request.text), folder = find_model(request.model);
  request.explained.check(folder);
  const FillMask model = FillMask::load(folder, request.storage.of_model());
  if (request.explained.wanted) {
    const JudgedText text = of_option(request.word.empty() ? "--text" : "--word",
                                      [&] { return JudgedText(model, masked, request.word, interruption()); });
    request.explained.print(model, text, request.json);
    return request.explained.report.write("Filled: " + masked, command.line());
  }
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
  Command& command = program.add_command("fill", "Predict the masked words of a text, one line per mask");
  command.add_examples(
      {{"Fill in a masked word", "qkv fill --model google-bert/bert-base-uncased --text 'The [MASK] sat.'"}});
  const auto request = std::make_shared<FillRequest>();
  command.add(
      {{"--model", file(request->model, "FOLDER"),
        "Folder of a model for masked words: config.json, model.safetensors, tokenizer.json", required()},
       {"--text", text(request->text, "TEXT"), "Text with the tokenizer's mask token, [MASK] or <mask>", required()},
       {"--top", size(request->top), "Number of words, most probable first (default: 5)"},
       {"--json", flag(request->json), "Write one JSON object per line"}});
  command.add(explain_options(request->explained,
                              "Show instead which words of the text the most probable word at each mask came from"));
  command.add({{"--word", text(request->word, "WORD"), "Explain this word instead of the most probable one",
                needs("--explain")}});
  command.add(storage_options(request->storage));
  command.on_run([&command, request] { fill(command, *request); });
}

}  // namespace qkv::app
