// qkv translate: sentences from the command line or standard input, translations on standard output.
#include <fmt/format.h>

#include <charconv>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "qkv/commands.h"
#include "qkv/error.h"
#include "qkv/explain_translation.h"
#include "qkv/lines.h"
#include "qkv/options.h"
#include "qkv/signals.h"
#include "qkv/text_style.h"
#include "qkv/translator.h"

namespace qkv::app {
namespace {

const std::vector<std::pair<std::string, WeightStorage>> kWeights = {
    {"f32", WeightStorage::full}, {"bf16", WeightStorage::bf16}, {"int8", WeightStorage::int8}};

struct Request {
  std::string model = QKV_MODEL;
  WeightStorage weights = WeightStorage::full;
  std::vector<std::string> texts{};
  bool json = false;
  bool ids = false;
  bool sample = false;
  bool explain = false;
  Sampling sampling{};
  TranslateOptions options{};
};

// Of line `number`, from 1.
std::vector<std::int32_t> parse_ids(const std::string& line, std::int64_t number, const MarianConfig& model) {
  std::vector<std::int32_t> ids;
  const char *at = line.data(), *end = at + line.size();
  while (true) {
    while (at < end && *at == ' ') ++at;
    if (at == end) break;
    std::int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (next < end && *next != ' ')) {
      throw FormatError(fmt::format("line {}: \"{}\" must be ids, whole numbers with spaces between", number, line));
    }
    if (id < 0 || id >= model.vocab) {
      throw FormatError(fmt::format("line {}: id {} must be from 0 to {}", number, id, model.vocab - 1));
    }
    ids.push_back(id);
    at = next;
  }
  if (ids.empty()) throw FormatError(fmt::format("line {} has no ids", number));
  if (std::ssize(ids) > model.positions) {
    throw FormatError(
        fmt::format("line {} has {} ids; the model reads {} at most", number, ids.size(), model.positions));
  }
  return ids;
}

// The hypotheses of one line: nbest lines, or one line of JSON.
void write(const Request& request, const std::vector<Translation>& found) {
  if (!request.json) {
    for (const Translation& one : found) {
      std::cout << (request.ids ? fmt::format("{}", fmt::join(one.ids, " ")) : one.text) << '\n';
    }
    return;
  }
  auto list = nlohmann::ordered_json::array();
  for (const Translation& one : found) {
    nlohmann::ordered_json entry;
    if (!request.ids) entry["text"] = one.text;
    entry["ids"] = one.ids;
    entry["score"] = one.score;
    list.push_back(std::move(entry));
  }
  nlohmann::ordered_json line{{"translations", std::move(list)}};
  if (found.front().cut > 0) line["cut"] = found.front().cut;
  std::cout << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

// `first`: the number of the first line, from 1.
void translate_lines(const Request& request, const Translator& translator, const std::vector<std::string>& lines,
                     std::int64_t first) {
  if (!request.ids) {
    for (const auto& found : translator.translate(lines, request.options)) {
      write(request, found);
      if (found.front().cut > 0) {
        fmt::print(stderr, "qkv translate: line {}: the last {} tokens are cut off; the model reads {} at most\n",
                   first, found.front().cut, translator.model().config().positions);
      }
      ++first;
    }
    return;
  }
  std::vector<std::vector<std::int32_t>> sources;
  for (const std::string& line : lines) {
    const std::int64_t number = first + static_cast<std::int64_t>(sources.size());
    sources.push_back(parse_ids(line, number, translator.model().config()));
  }
  for (const auto& hypotheses : translator.generate(sources, request.options)) {
    std::vector<Translation> found;
    for (const Hypothesis& one : hypotheses) found.push_back({.text = {}, .ids = one.tokens, .score = one.score});
    write(request, found);
  }
}

void explain(const Request& request, const Translator& translator) {
  for (const std::string& text : request.texts) {
    const TranslationSurvey survey = survey_translation(translator, text, {.translate = request.options});
    if (request.json) {
      std::cout << to_json(survey) << '\n';
      continue;
    }
    const std::string model = request.model == QKV_MODEL ? "" : " --model " + request.model;
    std::cout << words_to_text(survey, text_style()) << "\nEach head of it: qkv explain" << model << " --text \""
              << text << "\"\nAttention itself, in eight steps: qkv explain\n";
  }
}

void translate(Request request) {
  if (request.sample) request.options.sampling = request.sampling;
  request.options.stop = interruption();
  const Translator translator = Translator::load(request.model, request.weights);
  if (request.explain) return explain(request, translator);
  if (!request.texts.empty()) return translate_lines(request, translator, request.texts, 1);
  std::ios::sync_with_stdio(false);
  InputLines input;
  std::int64_t first = 1;
  for (std::vector<std::string> lines; input.next(lines); first += static_cast<std::int64_t>(lines.size())) {
    check_interruption();
    translate_lines(request, translator, lines, first);
    std::cout.flush();
  }
}

}  // namespace

void add_translate(CLI::App& program) {
  CLI::App& command =
      *program.add_subcommand("translate", "Translations: of the sentences given, or of standard input, line by line");
  const auto request = std::make_shared<Request>();
  command.add_option("text", request->texts, "Sentences; none: one per line on standard input");
  add_file(command, "--model", request->model,
           "Folder of the model: config.json, model.safetensors, tokenizer.json, generation_config.json (default: "
           "English to "
           "Spanish, the model that comes with qkv)");
  command
      .add_option("--beams,--beam", request->options.beams, "Beams of the search; 1: the most probable token each time")
      ->check(whole_number(1, kMaxBeams));
  command.add_option("--nbest", request->options.nbest, "Translations of each sentence, best first")
      ->check(whole_number(1, kMaxBeams));
  command.add_option("--max-length", request->options.max_length, "New tokens at most")
      ->check(whole_number(1, 1 << 20));
  command.add_option("--length-penalty", request->options.length_penalty, "Scores are divided by length to this power")
      ->check(finite_number());
  command.add_flag("--sample", request->sample, "Draw the tokens instead of searching");
  const auto sampling = [&](CLI::Option* option) { option->needs("--sample"); };
  sampling(command.add_option("--seed", request->sampling.seed, "Seed of the draws"));
  sampling(command.add_option("--temperature", request->sampling.temperature, "Logits are divided by it")
               ->check(finite_number()));
  sampling(command.add_option("--top-k", request->sampling.top_k, "Draw from the k most probable tokens; 0: all")
               ->check(whole_number(0, std::numeric_limits<std::int32_t>::max())));
  sampling(command
               .add_option("--top-p", request->sampling.top_p,
                           "Draw from the most probable tokens that together have this probability")
               ->check(finite_number()));
  command.add_flag("--ids", request->ids, "Token ids in and out instead of text; nothing is added to them");
  command
      .add_flag("--explain", request->explain,
                "Show what each word looked at instead; with --json as one object a sentence")
      ->needs("text")
      ->excludes("--ids")
      ->excludes("--nbest");
  command.add_flag(
      "--json", request->json,
      "Write {\"translations\": [{text, ids, score}]} a line, with \"cut\": N where the last N tokens of a text were "
      "too many for the model");
  add_choice(command, "--weights", request->weights, kWeights,
             "How the weights are kept: fewer bits are faster and coarser");
  add_threads(command);
  command.callback([request] { translate(*request); });
}

}  // namespace qkv::app
