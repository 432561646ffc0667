// qkv explain: the eight steps of self-attention on the worked example, on the user's arrays or on synthetic ones; with
// --model the heads of a model (model_heads.h).
#include "qkv/explain/explain.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string_view>

#include "commands.h"
#include "io/array_path.h"
#include "model_heads.h"
#include "options.h"
#include "program.h"
#include "qkv/files.h"
#include "signals.h"
#include "text_style.h"

namespace qkv::app {
namespace {

struct ExplainOptions {
  std::string input;
  std::string w_embed, w_query, w_key, w_value;
  std::string b_query, b_key, b_value;
  std::string w_out, b_out;
  std::int64_t heads = 0;
  std::string mask;
  ScoreOptions score;
  std::optional<double> scale;
  std::optional<Align> causal;
  std::optional<std::int64_t> prefix;
  Mask window;
  std::vector<std::string> substitutes;
  MadeUp made_up;
  ModelOptions model;
  bool json = false;
  bool full = false;
  std::optional<int> width;
};

// A file, or a matrix as JSON right in the option.
Tensor read_matrix(const std::string& option, const std::string& text) {
  const Tensor array = text.starts_with('[') ? parse_json_matrix(text, option) : read_array(text);
  return array.dtype() == Dtype::f64 ? array : convert(array, Dtype::f64);
}

// Text from a file, with nothing in it that a terminal would obey.
std::string printable(std::string_view text) {
  std::string safe(text);
  for (char& c : safe) {
    if (c < ' ' || c > '~') c = '?';
  }
  return safe;
}

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r"), end = text.find_last_not_of(" \t\r");
  return begin == std::string_view::npos ? "" : std::string(text.substr(begin, end - begin + 1));
}

// What comment lines of a CSV file tell about its rows: "# labels: zero, one" and "# picture: 8 x 8".
void read_remarks(const std::string& path, ExplainInput& input) {
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    std::string_view rest = line;
    if (rest.starts_with("# labels:")) {
      std::istringstream labels(line.substr(rest.find(':') + 1));
      for (std::string label; std::getline(labels, label, ',');) input.labels.push_back(printable(trimmed(label)));
    } else if (int height = 0, width = 0; std::sscanf(line.c_str(), "# picture: %9d x %9d", &height, &width) == 2) {
      input.picture = {height, width};
    }
  }
}

std::pair<std::string, Tensor> parse_substitute(const std::string& text) {
  const std::size_t sign = text.find('=');
  if (sign == std::string::npos) throw UsageError("--substitute", "\"" + text + "\" must be NAME=FILE or NAME=JSON");
  const std::string name = text.substr(0, sign);
  return {name, read_matrix("--substitute " + name, text.substr(sign + 1))};
}

bool any_given(const CLI::App& command, std::initializer_list<const char*> options) {
  return std::any_of(options.begin(), options.end(), [&](const char* option) { return command.count(option) > 0; });
}

// The options for what is made up, where nothing was that they change.
void refuse_without_effect(const CLI::App& command, const std::vector<std::string>& made_up) {
  if (command.count("--seed") > 0 && made_up.empty()) {
    throw UsageError("--seed", "has no effect: all numbers are given (--inputs N generates inputs)");
  }
  if (command.count("--init") > 0 && (made_up.empty() || made_up == std::vector<std::string>{"inputs"})) {
    throw UsageError("--init", "has no effect: all weights are given");
  }
}

ExplainInput input_of(const CLI::App& command, const ExplainOptions& options) {
  const bool own = any_given(
      command, {"--input", "--inputs", "--dim", "--key-dim", "--value-dim", "--init", "--w-embed", "--heads"});
  ExplainInput input;
  if (!own) input = worked_example();
  const auto read = [&](const char* option, const std::string& path, Tensor& tensor) {
    if (command.count(option) > 0) tensor = read_matrix(option, path);
  };
  read("--input", options.input, input.inputs);
  if (io::has_ending(options.input, ".csv")) read_remarks(options.input, input);
  if (!options.input.empty() && !options.input.starts_with('[')) {
    const std::string file = std::filesystem::path(options.input).filename().string();
    input.title = "Self-attention step by step: " + printable(file);
  }
  read("--w-embed", options.w_embed, input.w_embed);
  read("--w-query", options.w_query, input.w_query);
  read("--w-key", options.w_key, input.w_key);
  read("--w-value", options.w_value, input.w_value);
  read("--b-query", options.b_query, input.b_query);
  read("--b-key", options.b_key, input.b_key);
  read("--b-value", options.b_value, input.b_value);
  read("--w-out", options.w_out, input.w_out);
  read("--b-out", options.b_out, input.b_out);
  read("--mask", options.mask, input.mask);
  read("--score-w-query", options.score.w_query, input.score_w_query);
  read("--score-w-key", options.score.w_key, input.score_w_key);
  read("--score-w", options.score.w, input.score_w);
  read("--score-v", options.score.v, input.score_v);
  if (own || command.count("--score") > 0) input.score = options.score.kind;
  input.scale = options.scale;
  input.causal = options.causal;
  input.prefix = options.prefix;
  input.window = options.window;
  input.heads = options.heads;
  for (const std::string& text : options.substitutes) {
    const auto [place, inserted] = input.substitutes.insert(parse_substitute(text));
    if (!inserted) throw UsageError("--substitute", place->first + " is substituted twice; give each name once");
  }
  const bool changed =
      any_given(command, {"--w-query", "--w-key", "--w-value", "--b-query", "--b-key", "--b-value", "--mask", "--score",
                          "--scale", "--causal", "--prefix", "--window", "--dilated"});
  if (changed) {
    input.tutorial = false;
    input.weights_origin.clear();
  }
  refuse_surplus_score_options(options.score);
  input.full = options.full;
  input.stop = interruption();
  refuse_without_effect(command, make_up_missing(input, options.made_up));
  return input;
}

void add_arrays(CLI::App& command, ExplainOptions& options) {
  const auto array = [&](const char* name, std::string& path, const char* help) {
    command.add_option(name, path, help)->type_name("FILE|JSON");
  };
  array("--input", options.input, "one input per row: [n, dim] (default: the worked example)");
  array("--w-embed", options.w_embed, "[size, dim]: a = w_embed x replaces each input x");
  array("--w-query", options.w_query, "[dim, key_dim]: query = x w_query");
  array("--w-key", options.w_key, "[dim, key_dim]");
  array("--w-value", options.w_value, "[dim, value_dim]");
  array("--b-query", options.b_query, "[key_dim], added to each query");
  array("--b-key", options.b_key, "[key_dim]");
  array("--b-value", options.b_value, "[value_dim]");
  array("--w-out", options.w_out, "with --heads: [value_dim, dim]: output = merged heads x w_out");
  array("--b-out", options.b_out, "with --heads: [dim], added to each output");
  array("--mask", options.mask, "[n, n] or broadcast to it: 1 = may attend, 0 = hidden");
}

void add_made_up(CLI::App& command, MadeUp& made_up) {
  const auto size = [&](const char* name, std::int64_t& value, const char* help) {
    return command.add_option(name, value, help)->check(whole_number(1, 4096))->type_name("N");
  };
  size("--inputs", made_up.inputs, "number of synthetic inputs to generate (default: 3)")->excludes("--input");
  size("--dim", made_up.dim, "size of a synthetic input (default: 4)")->excludes("--input");
  size("--key-dim", made_up.key_dim, "size of a query and a key (default: the size of an input)")
      ->excludes("--w-query")
      ->excludes("--w-key");
  size("--value-dim", made_up.value_dim, "size of a value (default: key_dim)")->excludes("--w-value");
  static const std::vector<std::pair<std::string, Init>> inits = {
      {"normal", Init::normal}, {"xavier", Init::xavier}, {"kaiming", Init::kaiming}};
  add_choice(command, "--init", made_up.init, inits, "how missing weights are generated (default: xavier)");
  add_seed(command, made_up.seed, "seed of everything generated (default: 1)");
}

void run(const CLI::App& command, const ExplainOptions& options) {
  TextStyle style = text_style();
  style.width = options.width.value_or(style.width);
  style.full = options.full;
  std::string text;
  if (any_given(command, {"--model", "--text"})) {
    text = explain_model(command, options.model, options.json, style);
  } else {
    const Explanation explanation = explain(input_of(command, options));
    text = options.json ? to_json(explanation) + "\n" : to_text(explanation, style);
  }
  write_output(text);
}

}  // namespace

void add_explain(CLI::App& program) {
  CLI::App& command =
      *program.add_subcommand("explain", "Walk through self-attention in eight steps, number by number");
  const auto options = std::make_shared<ExplainOptions>();
  add_arrays(command, *options);
  add_score_options(command, options->score);
  command.get_option("--score")->description("score of a query and a key (default: scaled-dot; worked example: dot)");
  command
      .add_option("--scale", options->scale, "factor of the scores (default: 1/sqrt(key_dim) for scaled-dot, else 1)")
      ->check(finite_number())
      ->type_name("NUMBER");
  add_causal(command, options->causal);
  command.add_option("--prefix", options->prefix, "all see the first N inputs, and beyond them only up to themselves")
      ->check(whole_number(0, 4096))
      ->excludes("--causal")
      ->type_name("N");
  add_window(command, options->window);
  command
      .add_option("--heads", options->heads,
                  "multi-head attention: split, attend per head, merge, project out (sizes are those of all heads "
                  "together)")
      ->check(whole_number(1, 4096))
      ->type_name("N");
  for (const char* option : {"--w-out", "--b-out"}) command.get_option(option)->needs("--heads");
  add_made_up(command, options->made_up);
  command
      .add_option("--substitute", options->substitutes,
                  "use this matrix in place of an intermediate: inputs, embedded, query, key, value, scores, logits or "
                  "weights; may be repeated")
      ->type_name("NAME=FILE|JSON")
      ->expected(1)
      ->take_all();
  CLI::Option* json = command.add_flag("--json", options->json, "print one JSON object, with every number in full");
  command
      .add_flag("--full", options->full,
                "print every number; otherwise matrices are shortened to 20 rows, the width and 4 heads")
      ->excludes(json);
  command.add_option("--width", options->width, "width of the output in columns (default: the terminal's, else 98)")
      ->check(whole_number(40, 100'000))
      ->excludes(json)
      ->type_name("N");
  add_threads(command);
  add_model_options(command, options->model);
  command.callback([&command, options] { run(command, *options); });
}

}  // namespace qkv::app
