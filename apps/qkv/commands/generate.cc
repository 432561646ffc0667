// qkv generate: prompts from the command line or standard input, what a model writes behind them on standard output.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "commands.h"
#include "commands/report_file.h"
#include "explain/show/json_object.h"
#include "inputs/head_options.h"
#include "inputs/lines.h"
#include "inputs/options.h"
#include "io/files/descriptor.h"
#include "io/json/json_events.h"
#include "notes.h"
#include "qkv/error.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/written_text.h"
#include "qkv/files.h"
#include "qkv/models/find_model.h"
#include "qkv/pipelines/generator.h"
#include "signals.h"
#include "surroundings.h"

namespace qkv::app {
namespace {

struct GenerateRequest {
  std::string model{};  // empty: the one that comes with qkv
  ModelStorage storage{};
  std::vector<std::string> prompts{};
  bool json = false;
  bool ids = false;
  std::optional<std::int64_t> nbest{};
  Sampling sampling{};
  bool sample = false;
  bool explain = false;
  std::vector<std::string> heads{};
  std::string scored{};  // file
  TextLineOptions lines{};
  GeneratorOptions options{};
  LeftOutOptions left_out{};
  KeptHeads keep{};
  ReportFile report{};
  std::string fingerprint{};  // of the model, to explain
};

const std::vector<std::string> kSamplingOptions{"--sample", "--temperature", "--top-k", "--top-p", "--min-p", "--seed"};

// Options that scoring does not use.
std::vector<std::string> all_but_text() {
  std::vector<std::string> options{"text",         "--max-new-tokens",
                                   "--max-length", "--stop",
                                   "--greedy",     "--repetition-penalty",
                                   "--beams",      "--length-penalty",
                                   "--nbest",      "--chunk",
                                   "--draft",      "--cache",
                                   "--session",    "--ids",
                                   "--heads",      "--explain",
                                   "--chat",       "--raw"};
  options.insert(options.end(), kSamplingOptions.begin(), kSamplingOptions.end());
  return options;
}

// The folder's sampling, or a plain one, with the given options.
std::optional<Sampling> sampling_of(const Command& command, const GenerateRequest& request,
                                    const Generator& generator) {
  if (std::ranges::none_of(kSamplingOptions, [&](const std::string& option) { return command.given(option); }))
    return {};
  Sampling sampling = generator.sampling().value_or(Sampling{});
  if (command.given("--temperature")) sampling.temperature = request.sampling.temperature;
  if (command.given("--top-k")) sampling.top_k = request.sampling.top_k;
  if (command.given("--top-p")) sampling.top_p = request.sampling.top_p;
  if (command.given("--min-p")) sampling.min_p = request.sampling.min_p;
  sampling.seed = request.sampling.seed;
  return sampling;
}

// The prompt of line `number`, from 1.
std::vector<std::int32_t> prompt_of_line(const GenerateRequest& request, const Generator& generator,
                                         const std::string& line, std::int64_t number) {
  std::vector<std::int32_t> ids = request.ids ? ids_of_line(line, number, generator.model().config().vocab)
                                              : generator.prompt_ids(line, request.options);
  const std::string why = generator.refusal_of_length(std::ssize(ids));
  if (!why.empty()) throw FormatError(fmt::format("line {} {}", number, why));
  if (!request.ids) warn_of_letters("qkv generate", number, generator.tokenizer(), line);
  return ids;
}

const char* name_of(EndOfText end) {
  return end == EndOfText::end_token ? "end_token" : end == EndOfText::stop_string ? "stop_string" : "length";
}

// Prints the continuation of the prompt of line `number`: one line of JSON, or a line for each text.
void write(const GenerateRequest& request, std::int64_t number, const std::vector<GeneratedText>& found) {
  if (request.json) {
    nlohmann::ordered_json line{{"texts", nlohmann::ordered_json::array()}};
    for (const GeneratedText& one : found) {
      nlohmann::ordered_json entry;
      if (!request.ids) entry["text"] = one.text;
      entry["ids"] = one.ids;
      entry["log_probability"] = io::json_number(one.log_probability);
      entry["score"] = io::json_number(one.score);
      entry["end"] = name_of(one.end);
      for (std::size_t i = 0; i < one.weights.size(); ++i) {
        const auto& [layer, head] = request.options.heads[i];
        entry["weights"].push_back({{"layer", layer},
                                    {"head", head},
                                    {"rows", json_numbers(convert(one.weights[i], Dtype::f64), Dtype::f32)}});
      }
      line["texts"].push_back(std::move(entry));
    }
    return write_output(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  }
  for (const GeneratedText& one : found) {
    const std::string rank = request.nbest ? fmt::format("{}\t{:.6g}\t", number, one.score + 0.0) : "";  // 0, never -0
    const std::string line = request.ids ? fmt::format("{}", fmt::join(one.ids, " ")) : on_one_line(one.text);
    write_output(rank + line + "\n");
  }
}

void generate_prompts(const GenerateRequest& request, const Generator& generator,
                      const std::vector<std::vector<std::int32_t>>& prompts) {
  GeneratorOptions options = request.options;
  // A single text is shown as it grows.
  const bool grows =
      prompts.size() == 1 && !request.json && !request.ids && !request.nbest && generator.beams(options) == 1;
  if (grows) options.on_text = [](std::size_t, std::string_view text) { write_output(text); };
  std::int64_t number = 0;
  for (const auto& found : generator.generate_ids(prompts, options)) {
    grows ? write_output("\n") : write(request, ++number, found);
  }
}

void generate_arguments(const GenerateRequest& request, const Generator& generator) {
  std::vector<std::vector<std::int32_t>> prompts;
  for (const std::string& line : request.prompts) {
    prompts.push_back(prompt_of_line(request, generator, line, 1 + std::ssize(prompts)));
  }
  generate_prompts(request, generator, prompts);
}

// Each line of standard input joins the unfinished ones, and is printed after those before it; these
// are written to their end where a line is refused.
void generate_lines(const GenerateRequest& request, const Generator& generator) {
  constexpr std::size_t kMostWaiting = 1024;
  InputLines input(request.lines);
  std::map<std::size_t, std::vector<GeneratedText>> waiting;  // for lines before them
  std::size_t shown = 0;
  std::exception_ptr refused;
  const auto next = [&](bool idle) -> std::optional<std::vector<std::int32_t>> {
    check_interruption();
    try {
      std::string line;
      const bool is_there = !refused && waiting.size() < kMostWaiting && (idle || input.arrives()) && input.next(line);
      if (is_there) return prompt_of_line(request, generator, line, input.count());
    } catch (const Stopped&) {
      throw;
    } catch (const std::runtime_error&) {
      refused = std::current_exception();
    }
    return std::nullopt;
  };
  const auto ended = [&](std::size_t at, std::vector<GeneratedText> found) {
    waiting.emplace(at, std::move(found));
    for (auto first = waiting.find(shown); first != waiting.end(); first = waiting.find(shown)) {
      write(request, static_cast<std::int64_t>(++shown), first->second);
      waiting.erase(first);
    }
  };
  generator.generate_running(next, ended, request.options);
  if (refused) std::rethrow_exception(refused);
}

// The text of a session goes on, behind a prompt if there is one.
void continue_session(const GenerateRequest& request, const Generator& generator) {
  const std::string& path = request.options.session;
  if (request.prompts.size() > 1) throw UsageError("PROMPT", "must be at most one with --session");
  if (!request.prompts.empty()) return generate_arguments(request, generator);
  if (!io::is_there(path)) throw UsageError("--session", path + " does not exist; start it with a PROMPT");
  generate_prompts(request, generator, {{}});
}

// The session, the prompts, or standard input.
void answer(const GenerateRequest& request, const Generator& generator) {
  if (!request.options.session.empty()) return continue_session(request, generator);
  request.prompts.empty() ? generate_lines(request, generator) : generate_arguments(request, generator);
}

// Explains each text.
void explain(GenerateRequest& request, const Generator& generator) {
  std::vector<std::vector<std::int32_t>> prompts;
  for (const std::string& line : request.prompts) {
    prompts.push_back(prompt_of_line(request, generator, line, 1 + std::ssize(prompts)));
  }
  const auto found = generator.generate_ids(prompts, request.options);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    std::vector<std::int32_t> ids = prompts[i];
    ids.insert(ids.end(), found[i].front().ids.begin(), found[i].front().ids.end());
    const auto written = [&](const LeftOut& some) {
      return WrittenText(generator.model(), &generator.tokenizer(), ids,
                         {.prompt = prompts[i].size(), .run = {.stop = interruption()}}, some);
    };
    const HeadSurvey survey = reported_survey(without_left_out(request.left_out, written), {}, request.keep,
                                              request.report, request.fingerprint);
    write_output(request.json ? to_json(survey) + "\n" : words_to_text(survey, text_style()));
  }
}

// How probable each token of the file is: a line for each, and one for all of them; or one object of JSON.
void score(const GenerateRequest& request, const Generator& generator) {
  const std::string text = text_of_argument(read_file(request.scored), request.lines, request.scored);
  const ScoredText scored =
      of_option("--score", [&] { return generator.score(std::span(&text, 1), {.stop = interruption()}).front(); });
  const auto token_at = [&](std::size_t at) { return generator.tokenizer().token_of(scored.ids[at]); };
  if (!request.json) {
    for (std::size_t i = 0; i < scored.tokens.size(); ++i) {
      const auto& [log_probability, rank] = scored.tokens[i];
      write_output(fmt::format("{:.6f}\t{}\t{}\n", log_probability, rank, on_one_line(token_at(i + 1))));
    }
    return write_output(fmt::format("{} tokens, log-probability {:.6f}, perplexity {:.6g}, {:.6f} bits per byte\n",
                                    scored.tokens.size(), scored.log_probability, scored.perplexity,
                                    scored.bits_per_byte));
  }
  nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < scored.ids.size(); ++i) {
    nlohmann::ordered_json& token = tokens.emplace_back();
    token = {{"id", scored.ids[i]}, {"token", token_at(i)}, {"log_probability", nullptr}, {"rank", nullptr}};
    if (i == 0) continue;
    token["log_probability"] = scored.tokens[i - 1].log_probability;
    token["rank"] = scored.tokens[i - 1].rank;
  }
  const nlohmann::ordered_json all{{"log_probability", scored.log_probability},
                                   {"perplexity", scored.perplexity},
                                   {"bytes", scored.bytes},
                                   {"bits_per_byte", scored.bits_per_byte},
                                   {"tokens", std::move(tokens)}};
  write_output(all.dump() + "\n");
}

void generate(const Command& command, GenerateRequest request) {
  for (std::string& text : request.prompts) text = text_of_option("PROMPT", text, request.lines);
  for (const std::string& text : request.options.stop_strings) {
    if (text.empty()) throw UsageError("--stop", "must not be empty");
  }
  const std::string folder =
      request.model.empty() ? default_model(DefaultModel::writer) : find_language_model(request.model);
  request.keep.check(request.report, request.json);
  request.report.check(model_files(folder));
  const Generator generator = Generator::load(folder, request.storage.of_model());
  if (!request.ids) generator.tokenizer();  // before any work
  if (!request.scored.empty()) return score(request, generator);
  request.options.sampling = sampling_of(command, request, generator);
  request.options.nbest = request.nbest.value_or(1);
  request.options.stop = interruption();
  const std::vector<TransformerLayerConfig>& layers = generator.model().config().layers;
  const Attentions all{.sites = {{.name = "attention", .layers = std::ssize(layers), .heads = layers.front().heads}}};
  for (const std::string& text : request.heads) {
    const HeadIndex head = head_at("--heads", text, all);
    request.options.heads.push_back({head.layer, head.head});
  }
  const std::int64_t beams = generator.beams(request.options);
  const bool samples = request.options.sampling || (generator.sampling() && !request.options.greedy);
  if (samples && beams > 1) throw UsageError("--beams", "must be 1 when sampling; see --greedy");
  for (const char* option : {"--stop", "--heads", "--draft", "--session"}) {
    if (beams > 1 && command.given(option)) throw UsageError(option, "requires --beams 1");
  }
  if (request.options.nbest > beams) {
    throw UsageError("--nbest", fmt::format("{} must be at most the number of beams, {}; see --beams",
                                            request.options.nbest, beams));
  }
  if (request.explain) {
    if (request.json || request.report.wanted()) request.fingerprint = model_fingerprint(generator);
    explain(request, generator);
    return request.report.write("Continuation of: " + request.prompts.front(), command.line());
  }
  answer(request, generator);
  // The default model.
  if (request.model.empty() && isatty(STDERR_FILENO) != 0) note(about_default_model(DefaultModel::writer));
}

}  // namespace

void add_generate(Command& program) {
  Command& command =
      program.add_command("generate", "Continue prompts with a language model, or standard input line by line");
  command.add_examples(
      {{"Write verses, with the model that comes with qkv", "qkv generate 'In the beginning'"},
       {"Ask a chat model", "qkv generate --model Qwen/Qwen3-0.6B --chat 'What is attention?'"},
       {"Continue a prompt", "qkv generate --model openai-community/gpt2 --max-new-tokens 20 'The cat sat'"}});
  const auto request = std::make_shared<GenerateRequest>();
  Sampling& sampling = request->sampling;
  GeneratorOptions& options = request->options;
  command.add(
      {{"text", text(request->prompts, "PROMPT"),
        "Prompts (default: standard input, one per line); a single one is streamed"},
       {"--model", file(request->model, "FOLDER"),
        "Folder of the model: config.json, model.safetensors, tokenizer.json, generation_config.json; or a GGUF file "
        "(default: verses, the model that comes with qkv)"},
       {"--max-new-tokens", whole(options.max_new_tokens, 1, 1 << 20),
        "Maximum number of new tokens (default: generation_config.json, else 256)"},
       {"--max-length", whole(options.max_length, 1, 1 << 20), "The same, including the tokens of the prompt",
        excludes("--max-new-tokens")},
       {"--chat", flag([&options] { options.form = PromptForm::chat; }),
        "Each prompt is a message to a chat model; formats it with the chat template (ChatML, Llama, Mistral, Gemma)",
        excludes("--ids")},
       {"--raw", flag([&options] { options.form = PromptForm::raw; }),
        "Prompts contain their special tokens, such as <|im_start|>; none are added", excludes("--chat", "--ids")},
       {"--stop",
        {.variable = &options.stop_strings, .type = "TEXT", .count = 1, .takes_words = false},
        "Stop before this text, which is not printed; may be repeated",
        repeated()},
       {"--sample", flag(request->sample), "Sample tokens; implied by the options below"},
       {"--temperature", positive(sampling.temperature, "X"), "Divides the logits before sampling"},
       {"--top-k", whole(sampling.top_k, 0, std::numeric_limits<std::int32_t>::max()),
        "Sample from the k most probable tokens; 0: all"},
       {"--top-p", positive(sampling.top_p, "P", 1),
        "Sample from the most probable tokens that together have this probability"},
       {"--min-p", probability(sampling.min_p),
        "Sample from tokens at least this many times as probable as the most probable one"},
       {"--seed", seed(sampling.seed), "Seed of sampling"},
       {"--greedy",
        flag(options.greedy),
        "Greedy search, regardless of generation_config.json",
        {.excludes = kSamplingOptions}},
       {"--repetition-penalty", finite(options.repetition_penalty, "X", 1e-6),
        "Above 1: tokens already in the text become less probable"},
       {"--beams", whole(options.beams, 1, kMaxBeams), "Beams of the search; 1: greedy search"},
       {"--length-penalty", finite(options.length_penalty, "X"), "Divide scores by the length to this power"},
       {"--nbest", whole(request->nbest, 1, kMaxBeams),
        "Print the N best texts of each line, as text: line number, tab, score, tab, text"},
       {"--chunk", whole(options.chunk, 0, 1 << 20),
        "Tokens of a prompt to process at once; fewer take less memory and give the same bits; 0: all"},
       {"--cache",
        choice(options.cache_type, Names<Dtype>{{"f32", Dtype::f32}, {"bf16", Dtype::bf16}, {"f16", Dtype::f16}}),
        "Type of the cached keys and values; bf16 and f16 halve the memory, and round"},
       {"--draft", choice(options.drafts, Names<Drafts>{{"none", Drafts::none}, {"lookup", Drafts::lookup}}),
        "lookup: draft tokens from earlier occurrences of the last ones; same bits, faster on repetitive text; not "
        "with --heads"},
       {"--session", file(options.session, "FILE"),
        "Save the text and the model's state in this file, and resume from it if it exists; without a PROMPT, as "
        "if never interrupted"},
       {"--ids", flag(request->ids), "Token ids in and out instead of text"},
       {"--json", flag(request->json),
        "Write one {\"texts\": [{text, ids, log_probability, score, end}]} per line, where end is end_token, "
        "stop_string or length"},
       {"--heads",
        {.variable = &request->heads, .type = "LAYER.HEAD", .count = 1, .takes_words = false},
        "With --json: also this head's weights for each new token; layer and head from 0; may be repeated",
        repeated() & needs("--json") & excludes("--explain", "--nbest")},
       {"--score",
        file(request->scored, "FILE"),
        "Score the text in this file instead: natural log-probability and rank of each token, then the sum, "
        "perplexity and bits per byte; with --json {log_probability, perplexity, bytes, bits_per_byte, tokens: "
        "[{id, token, log_probability, rank}]}",
        {.excludes = all_but_text()}},
       {"--explain", flag(request->explain),
        "Show which tokens each new token came from, its alternatives, and what each layer would have predicted; "
        "with --json one object per prompt",
        needs("text") & excludes("--ids", "--nbest", "--session")},
       html_option(request->report, needs("--explain"))});
  command.add(kept_head_options(request->keep, "LAYER.HEAD", needs("--explain")));
  command.add(left_out_options(request->left_out, needs("--explain")));
  command.add(line_options(request->lines));
  command.add(storage_options(request->storage));
  command.on_run([&command, request] { generate(command, *request); });
}

}  // namespace qkv::app
