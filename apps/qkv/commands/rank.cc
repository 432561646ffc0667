// qkv rank: texts by how well they answer a query.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "explained_head.h"
#include "inputs/lines.h"
#include "inputs/options.h"
#include "io/json/json_events.h"
#include "qkv/models/find_model.h"
#include "qkv/pipelines/reranker.h"
#include "signals.h"

namespace qkv::app {
namespace {

struct RankRequest {
  std::string model{};
  std::string query{};
  ModelStorage storage{};
  std::int64_t top = 0;
  bool json = false;
  TextLineOptions lines{};
  ExplainedHead explained{};
};

void rank(const Command& command, RankRequest request) {
  const std::string query = text_of_option("--query", request.query, request.lines);
  const std::string folder = find_model(request.model);
  request.explained.check(folder);
  const Reranker reranker = Reranker::load(folder, request.storage.of_model());
  std::vector<std::string> texts;
  InputLines input(request.lines);
  for (std::string line; input.next(line);) texts.push_back(std::move(line));
  std::vector<std::int64_t> cut(texts.size());
  std::vector<Ranked> ranked = reranker.rank(query, texts, {.cut = cut, .stop = interruption()});
  CutTexts all_cut;
  for (const std::int64_t tokens : cut) all_cut.add(tokens);
  if (request.explained.wanted && request.top == 0) request.top = 1;
  if (request.top > 0) ranked.resize(std::min(ranked.size(), static_cast<std::size_t>(request.top)));
  for (const Ranked& found : ranked) {
    if (request.explained.wanted) {
      request.explained.print(reranker, JudgedText(reranker, query, texts[found.index], interruption()), request.json);
    } else if (request.json) {
      nlohmann::ordered_json line{{"index", found.index}, {"score", io::json_number(found.score)}};
      if (cut[found.index] > 0) line["cut"] = cut[found.index];
      fmt::print("{}\n", line.dump());
    } else {
      fmt::print("{:.6f}\t{}\n", found.score, on_one_line(texts[found.index]));
    }
  }
  all_cut.warn("qkv rank", reranker.max_length(), "pair");
  request.explained.report.write("Ranked: " + query, command.line());
}

}  // namespace

void add_rank(Command& program) {
  Command& command = program.add_command(
      "rank", "Rank texts, one per line on standard input, by how well they answer a query, best first");
  command.add_examples({{"The lines of a file, the best answer first",
                         "qkv rank --model BAAI/bge-reranker-base --query 'Who sat?' < texts.txt"}});
  const auto request = std::make_shared<RankRequest>();
  command.add(
      {{"--model", file(request->model, "FOLDER"),
        "Folder of a cross-encoder with one label: config.json, model.safetensors, tokenizer.json", required()},
       {"--query", text(request->query, "TEXT"), "Query to rank the texts for", required()},
       {"--top", size(request->top), "Number of texts to print (default: all)"},
       {"--json", flag(request->json),
        "Write one {\"index\": N, \"score\": S} per line, with \"cut\": N if N tokens of the pair did not fit the "
        "model; indices count the texts from 0"}});
  command.add(explain_options(request->explained,
                              "Show instead which words the score of the best text came from; with --top, of the N "
                              "best texts"));
  command.add(line_options(request->lines));
  command.add(storage_options(request->storage));
  command.on_run([&command, request] { rank(command, *request); });
}

}  // namespace qkv::app
