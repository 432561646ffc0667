// qkv answer: the part of a context that answers a question.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "commands.h"
#include "explained_head.h"
#include "inputs/lines.h"
#include "inputs/options.h"
#include "io/json/json_events.h"
#include "pipelines/texts/character_spans.h"
#include "qkv/models/find_model.h"
#include "qkv/pipelines/question_answerer.h"
#include "signals.h"

namespace qkv::app {
namespace {

struct AnswerRequest {
  std::string model{};
  std::string question{};
  std::optional<std::string> context{};
  ModelStorage storage{};
  bool json = false;
  TextLineOptions lines{};
  AnswerOptions options{};
  ExplainedHead explained{};
};

std::string read_context(const TextLineOptions& options) {
  std::string context;
  InputLines input(options);
  for (std::string line; input.next(line);) context += (input.count() == 1 ? "" : "\n") + line;
  return context;
}

void answer(const Command& command, AnswerRequest request) {
  const std::string question = text_of_option("--question", request.question, request.lines);
  std::string context = request.context ? text_of_option("--text", *request.context, request.lines) : "";
  const std::string folder = find_model(request.model);
  request.explained.check(folder);
  const QuestionAnswerer answerer = QuestionAnswerer::load(folder, request.storage.of_model());
  if (!request.context) context = read_context(request.lines);
  if (request.explained.wanted) {
    request.explained.print(answerer, JudgedText(answerer, question, context, interruption()), request.json);
    return request.explained.report.write("Answered: " + question, command.line());
  }
  AnswerOptions options = request.options;
  options.stop = interruption();
  const CharacterSpans characters(context);
  for (const auto& [found, score, span] : answerer.answer(question, context, options)) {
    if (request.json) {
      const TextSpan counted = characters.of(span);
      const nlohmann::ordered_json line{
          {"answer", found}, {"score", io::json_number(score)}, {"start", counted.begin}, {"end", counted.end}};
      fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    } else {
      fmt::print("{:.6f}\t{}\n", score, on_one_line(found));
    }
  }
}

}  // namespace

void add_answer(Command& program) {
  Command& command = program.add_command("answer", "Find the part of a text that answers a question");
  command.add_examples(
      {{"The answer in a text", "qkv answer --model ORG/NAME --question 'Who sat?' --text 'The cat sat.'"},
       {"The three best ones in a file", "qkv answer --model ORG/NAME --question 'Who sat?' --top 3 < text.txt"}});
  const auto request = std::make_shared<AnswerRequest>();
  command.add(
      {{"--model", file(request->model, "FOLDER"),
        "Folder of a model that answers questions: config.json, model.safetensors, tokenizer.json", required()},
       {"--question", text(request->question, "TEXT"), "The question", required()},
       {"--text", text(request->context, "TEXT"), "The text that contains the answer (default: standard input)"},
       {"--top", size(request->options.top_k), "Number of answers to print, best first (default: 1)"},
       {"--max-answer", size(request->options.max_answer_len), "Longest answer, in tokens (default: 15)"},
       {"--stride", whole(request->options.doc_stride, 0, std::int64_t{1} << 20),
        "Overlap of the parts of a long text, in tokens, at most half a part (default: 128)"},
       {"--impossible", flag(request->options.handle_impossible_answer), "Print an empty answer if the text has none"},
       {"--json", flag(request->json), "Write one JSON object per line, with offsets in characters"}});
  command.add(explain_options(request->explained, "Show instead which words the best answer came from",
                              excludes("--top", "--max-answer", "--stride", "--impossible")));
  command.add(line_options(request->lines));
  command.add(storage_options(request->storage));
  command.on_run([&command, request] { answer(command, *request); });
}

}  // namespace qkv::app
