// qkv tag: the words of texts with their labels.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "explained_head.h"
#include "inputs/lines.h"
#include "inputs/options.h"
#include "io/json/json_events.h"
#include "pipelines/texts/character_spans.h"
#include "qkv/models/find_model.h"
#include "qkv/pipelines/tagger.h"
#include "signals.h"

namespace qkv::app {
namespace {

struct TagRequest {
  std::string model{};
  std::vector<std::string> texts{};
  ModelStorage storage{};
  Aggregation aggregation = Aggregation::simple;
  bool json = false;
  TextLineOptions lines{};
  ExplainedHead explained{};
};

std::string line_of(const std::string& tagged, const std::vector<TaggedSpan>& found, std::int64_t cut, bool json) {
  const CharacterSpans characters(tagged);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::string line;
  for (const auto& [label, score, word, span] : found) {
    const TextSpan counted = characters.of(span);
    list.push_back({{"label", label},
                    {"score", io::json_number(score)},
                    {"word", word},
                    {"start", counted.begin},
                    {"end", counted.end}});
    line += fmt::format("{}{} {} {:.4f}", line.empty() ? "" : ", ", word, label, score);
  }
  if (!json) return on_one_line(line);
  nlohmann::ordered_json object{{"text", tagged}, {"found", list}};
  if (cut > 0) object["cut"] = cut;
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void tag(const Command& command, TagRequest request) {
  std::vector<std::string> given;
  for (const std::string& each : request.texts) given.push_back(text_of_option("text", each, request.lines));
  const std::string folder = find_model(request.model);
  request.explained.check(folder);
  const Tagger tagger = Tagger::load(folder, request.storage.of_model());
  if (request.explained.wanted) {
    for (const std::string& text : given) {
      request.explained.print(tagger, JudgedText(tagger, text, interruption()), request.json);
    }
    return request.explained.report.write("Labelled: " + given.front(), command.line());
  }
  CutTexts all_cut;
  const auto answer = [&](const std::vector<std::string>& texts) {
    check_interruption();
    std::vector<std::int64_t> cut(texts.size());
    const auto found = tagger.tag(texts, {.aggregation = request.aggregation, .cut = cut, .stop = interruption()});
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::cout << line_of(texts[i], found[i], cut[i], request.json) << '\n';
      all_cut.add(cut[i]);
    }
    flush_output();
  };
  if (!given.empty()) {
    answer(given);
  } else {
    InputLines input(request.lines);
    for (std::vector<std::string> lines; input.next(lines);) answer(lines);
  }
  all_cut.warn("qkv tag", tagger.max_length());
}

}  // namespace

void add_tag(Command& program) {
  Command& command = program.add_command(
      "tag",
      "Label words, such as names or parts of speech, in texts from the command line or standard input, one per line");
  command.add_examples({{"Names in a text", "qkv tag --model dslim/bert-base-NER 'Ada Lovelace was born in London.'"},
                        {"Each line of a file, as JSON", "qkv tag --model dslim/bert-base-NER --json < texts.txt"}});
  const auto request = std::make_shared<TagRequest>();
  command.add(
      {{"--model", file(request->model, "FOLDER"),
        "Folder of a model that labels tokens: config.json, model.safetensors, tokenizer.json", required()},
       {"text", text(request->texts, "TEXT"), "Texts to label, instead of standard input", repeated()},
       {"--aggregation",
        choice(request->aggregation, Names<Aggregation>{{"none", Aggregation::none},
                                                        {"simple", Aggregation::simple},
                                                        {"first", Aggregation::first},
                                                        {"average", Aggregation::average},
                                                        {"max", Aggregation::max}}),
        "none: label each token; simple: join neighbours with the same label; first, average, max: first label "
        "each word by its first token, the mean of its tokens, or its most probable one (default: simple)"},
       {"--json", flag(request->json),
        "Write one JSON object per line, with offsets in characters, and \"cut\": N if the last N tokens did not fit "
        "the model"}});
  command.add(explain_options(request->explained, "Show instead which words each label other than \"O\" came from",
                              needs("text") & excludes("--aggregation")));
  command.add(line_options(request->lines));
  command.add(storage_options(request->storage));
  command.on_run([&command, request] { tag(command, *request); });
}

}  // namespace qkv::app
