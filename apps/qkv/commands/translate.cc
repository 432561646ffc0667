// qkv translate: sentences from the command line or standard input, translations on standard output.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "commands/report_file.h"
#include "explain/steps/text_parts.h"
#include "figures.h"
#include "inputs/head_options.h"
#include "inputs/lines.h"
#include "inputs/options.h"
#include "io/json/json_events.h"
#include "notes.h"
#include "qkv/error.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/translated_text.h"
#include "qkv/models/find_model.h"
#include "qkv/pipelines/translator.h"
#include "signals.h"
#include "surroundings.h"

namespace qkv::app {
namespace {

struct TranslateRequest {
  std::string model{};  // empty: the one that comes with qkv
  ModelStorage storage{};
  std::vector<std::string> texts{};
  bool json = false;
  bool ids = false;
  bool sample = false;
  bool explain = false;
  bool whole = false;
  bool unsure = false;  // of a translation, so far
  std::optional<std::int64_t> nbest{};
  Sampling sampling{};
  TextLineOptions lines{};
  TranslateOptions options{};
  LeftOutOptions left_out{};
  KeptHeads keep{};
  ReportFile report{};
  std::string fingerprint{};  // of the model, to explain
};

// The ids of line `number`, from 1.
std::vector<std::int32_t> parse_ids(const std::string& line, std::int64_t number, const EncoderDecoderTokens& model) {
  std::vector<std::int32_t> ids = ids_of_line(line, number, model.vocab);
  if (std::ssize(ids) > model.positions) {
    throw FormatError(
        fmt::format("line {} has {} ids; the model reads at most {}", number, ids.size(), model.positions));
  }
  return ids;
}

nlohmann::ordered_json json_of(const TranslateRequest& request, const Translation& one) {
  nlohmann::ordered_json entry;
  if (!request.ids) entry["text"] = one.text;
  entry["ids"] = one.ids;
  entry["score"] = io::json_number(one.score);
  if (one.unsure) entry["unsure"] = true;
  for (const Translation& sentence : one.sentences) {
    nlohmann::ordered_json part{{"source", sentence.source}};
    part.update(json_of(request, sentence));
    if (sentence.cut > 0) part["cut"] = sentence.cut;
    entry["sentences"].push_back(std::move(part));
  }
  return entry;
}

// The hypotheses of line `number`: one line of JSON, or a line for each.
void write(const TranslateRequest& request, std::int64_t number, const std::vector<Translation>& found) {
  if (request.json) {
    nlohmann::ordered_json line{{"translations", nlohmann::ordered_json::array()}};
    for (const Translation& one : found) line["translations"].push_back(json_of(request, one));
    if (found.front().cut > 0) line["cut"] = found.front().cut;
    std::cout << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
    return;
  }
  static const bool dims = text_style().color;
  for (const Translation& one : found) {
    if (request.nbest) std::cout << fmt::format("{}\t{:.6g}\t", number, one.score + 0.0);  // 0, never -0
    const std::string line = request.ids ? fmt::format("{}", fmt::join(one.ids, " ")) : on_one_line(one.text);
    std::cout << painted(line, dims && one.unsure ? "2" : "") << '\n';
  }
}

// Warnings about a translation, one line each on standard error.
void warn(const Translation& found, const std::string& origin, std::int64_t positions) {
  for (std::size_t s = 0; s < found.sentences.size(); ++s) {
    warn(found.sentences[s], fmt::format("{}, sentence {}", origin, s + 1), positions);
  }
  if (!found.sentences.empty()) return;
  if (found.cut > 0) {
    fmt::print(stderr, "qkv translate: {}: the last {} tokens are cut off; the model reads at most {}\n", origin,
               found.cut, positions);
  }
  if (found.unsure) {
    const double mean = std::exp(found.log_probability / static_cast<double>(found.ids.size()));
    fmt::print(stderr, "qkv translate: {}: probably wrong: mean token probability {}\n", origin, percent_text(mean));
  }
}

// `first`: the number of the first line, from 1.
void translate_lines(TranslateRequest& request, const Translator& translator, const std::vector<std::string>& lines,
                     std::int64_t first) {
  TranslateOptions options = request.options;
  options.stream.line = static_cast<std::uint64_t>(first - 1);
  for (const auto& found : translator.translate(lines, options)) {
    write(request, first, found);
    request.unsure |= found.front().unsure;
    request.unsure |= warn_of_letters("qkv translate", first, translator.tokenizer(), found.front().source);
    warn(found.front(), fmt::format("line {}", first), translator.model().tokens().positions);
    ++first;
  }
}

// Answers the lines before an invalid one.
void translate_ids(TranslateRequest& request, const Translator& translator, const std::vector<std::string>& lines,
                   std::int64_t first) {
  std::vector<std::vector<std::int32_t>> sources;
  std::exception_ptr refused;
  try {
    for (const std::string& line : lines) {
      sources.push_back(parse_ids(line, first + std::ssize(sources), translator.model().tokens()));
    }
  } catch (const FormatError&) {
    refused = std::current_exception();
  }
  TranslateOptions options = request.options;
  options.stream.line = static_cast<std::uint64_t>(first - 1);
  for (const auto& hypotheses : translator.generate(sources, options)) {
    std::vector<Translation> found;
    for (const Hypothesis& one : hypotheses) {
      found.push_back({.ids = one.tokens,
                       .log_probability = one.log_probability,
                       .score = one.score,
                       .unsure = translator.is_unsure(one)});
    }
    write(request, first, found);
    warn(found.front(), fmt::format("line {}", first++), translator.model().tokens().positions);
  }
  if (refused) std::rethrow_exception(refused);
}

TranslatedText translated(const TranslateRequest& request, const Translator& translator, const std::string& sentence,
                          TranslateOptions options) {
  options.split = false;
  const Translation translation = translator.translate(sentence, options);
  return without_left_out(request.left_out, [&](const LeftOut& some) {
    return TranslatedText(translator, sentence, translation, some, options.stop);
  });
}

void explain(TranslateRequest& request, const Translator& translator) {
  TranslateOptions options = request.options;
  for (std::size_t i = 0; i < request.texts.size(); ++i) {
    options.stream = {i, 0};
    const std::string& text = request.texts[i];
    for (const std::string& sentence : options.split ? translator.sentences(text) : std::vector{text}) {
      auto line = std::make_unique<WorkingLine>("explaining");
      const HeadSurvey survey = reported_survey(translated(request, translator, sentence, options), {}, request.keep,
                                                request.report, request.fingerprint);
      line.reset();
      ++options.stream.part;
      if (request.json) {
        std::cout << to_json(survey) << '\n';
        continue;
      }
      const std::string model = request.model.empty() ? "" : " --model " + request.model;
      std::cout << words_to_text(survey, text_style()) << "\nEvery head: qkv explain" << model << " --text \""
                << sentence << "\"" << request.left_out.words() << "\nAttention itself, in eight steps: qkv explain\n";
    }
  }
}

// Describes the default model on a terminal, and if a translation is probably wrong.
void note_origin(const TranslateRequest& request) {
  if (request.model.empty() && (request.unsure || isatty(STDERR_FILENO) != 0))
    note(about_default_model(DefaultModel::translator));
}

void translate(const Command& command, TranslateRequest request) {
  for (std::string& text : request.texts) text = text_of_option("TEXT", text, request.lines);
  const std::string folder =
      request.model.empty() ? default_model(DefaultModel::translator) : find_model(request.model);
  request.keep.check(request.report, request.json);
  request.report.check(model_files(folder));
  if (request.sample) request.options.sampling = request.sampling;
  request.options.nbest = request.nbest.value_or(1);
  request.options.split = !request.whole;
  request.options.stop = interruption();
  const Translator translator = Translator::load(folder, request.storage.of_model());
  const std::int64_t beams = translator.beams(request.options);
  if (request.sample && beams > 1) throw UsageError("--sample", "requires --beams 1");
  if (request.options.nbest > beams) {
    throw UsageError("--nbest", fmt::format("{} must be at most the number of beams, {}{}", request.options.nbest,
                                            beams, request.sample ? " with --sample" : "; see --beams"));
  }
  if (request.explain) {
    if (request.json || request.report.wanted()) {
      request.fingerprint = model_fingerprint(translator);
    }
    explain(request, translator);
    return request.report.write(request.texts.size() == 1 ? "Translated: " + request.texts.front() : "Translations",
                                command.line());
  }
  const auto answer = request.ids ? translate_ids : translate_lines;
  if (!request.texts.empty()) {
    answer(request, translator, request.texts, 1);
    return note_origin(request);
  }
  std::ios::sync_with_stdio(false);
  InputLines input(request.lines);
  for (std::vector<std::string> lines; input.next(lines);) {
    check_interruption();
    answer(request, translator, lines, input.count() - std::ssize(lines) + 1);
    flush_output();
  }
  note_origin(request);
}

}  // namespace

void add_translate(Command& program) {
  Command& command = program.add_command("translate", "Translate sentences, or standard input line by line");
  command.add_examples({{"English to Spanish", "qkv translate 'You are welcome'"},
                        {"A file, one sentence a line", "qkv translate < english.txt > spanish.txt"},
                        {"Which words each word came from", "qkv translate --explain 'You are welcome'"}});
  const auto request = std::make_shared<TranslateRequest>();
  Sampling& sampling = request->sampling;
  command.add({{"text", text(request->texts, "TEXT"), "Sentences (default: standard input, one per line)"},
               {"--model", file(request->model, "FOLDER"),
                "Folder of the model: config.json, model.safetensors, tokenizer.json, generation_config.json (default: "
                "English to Spanish, the model that comes with qkv)"},
               {"--beams,--beam", whole(request->options.beams, 1, kMaxBeams),
                "Beams of the search; 1: greedy search (default: generation_config.json)"},
               {"--nbest", whole(request->nbest, 1, kMaxBeams),
                "Print the N best translations of each line, as text: line number, tab, score, tab, translation"},
               {"--no-split", flag(request->whole), "Truncate long texts instead of splitting them into sentences"}});
  command.add(line_options(request->lines));
  command.add(
      {{"--max-length", whole(request->options.max_length, 1, 1 << 20),
        "Maximum number of new tokens (default: generation_config.json)"},
       {"--length-penalty", finite(request->options.length_penalty, "X"),
        "Divide scores by the length to this power (default: generation_config.json)"},
       {"--sample", flag(request->sample), "Sample tokens instead of searching with beams"},
       {"--seed", seed(sampling.seed), "Seed of sampling (default: 0)", needs("--sample")},
       {"--temperature", positive(sampling.temperature, "X"), "Divides the logits before sampling (default: 1)",
        needs("--sample")},
       {"--top-k", whole(sampling.top_k, 0, std::numeric_limits<std::int32_t>::max()),
        "Sample from the k most probable tokens; 0: all (default: 0)", needs("--sample")},
       {"--top-p", positive(sampling.top_p, "P", 1),
        "Sample from the most probable tokens that together have this probability (default: 1)", needs("--sample")},
       {"--ids", flag(request->ids), "Token ids in and out instead of text; no special tokens are added"},
       {"--explain", flag(request->explain),
        "Show the word alignment instead of the translation; with --json one object per sentence",
        needs("text") & excludes("--ids", "--nbest")},
       html_option(request->report, needs("--explain")),
       {"--json", flag(request->json),
        "Write one {\"translations\": [{text, ids, score}]} per line, with \"sentences\": [{source, text, ids, score}] "
        "if the text was split, \"unsure\": true if the model is, and \"cut\": N if N of its tokens did not fit the "
        "model"}});
  command.add(storage_options(request->storage));
  command.add(kept_head_options(request->keep, "LAYER.HEAD", needs("--explain")));
  command.add(left_out_options(request->left_out, needs("--explain")));
  command.on_run([&command, request] { translate(command, *request); });
}

}  // namespace qkv::app
