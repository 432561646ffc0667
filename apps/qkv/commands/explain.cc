// qkv explain: the eight steps of self-attention on the worked example, on the user's arrays or on synthetic ones; with
// --model the heads of a model (model_heads.h).
#include "qkv/explain/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string_view>

#include "commands.h"
#include "commands/model_heads.h"
#include "commands/report_file.h"
#include "explain/observe/intermediates.h"
#include "inputs/call_options.h"
#include "inputs/options.h"
#include "io/files/files.h"
#include "notes.h"
#include "qkv/files.h"
#include "signals.h"
#include "surroundings.h"

namespace qkv::app {
namespace {

struct ExplainOptions {
  explicit ExplainOptions(Command& command) : files(command) {}

  ArrayFiles files;
  std::array<std::string, 11> matrices;  // of matrix_options()
  std::int64_t heads = 0;
  std::optional<ScoreOptions> score;
  std::optional<double> scale;
  std::optional<Align> causal;
  std::optional<std::int64_t> prefix;
  Mask window;
  std::vector<std::string> substitutes;
  SyntheticInput synthetic;
  ModelOptions model;
  ReportFile report;
  std::string svg;
  std::int64_t step = 0;
  bool json = false;
  bool full = false;
  bool heat = false;
  std::optional<std::int64_t> width;
};

struct MatrixOption {
  const char* name;
  Tensor ExplainInput::* member;
  const char* help;
  Rules rules{};
};

const std::vector<MatrixOption>& matrix_options() {
  static const std::vector<MatrixOption> list = {
      {"--input", &ExplainInput::inputs, "One input per row: [n, dim] (default: the worked example)"},
      {"--w-embed", &ExplainInput::w_embed, "[size, dim]: a = w_embed x replaces each input x"},
      {"--w-query", &ExplainInput::w_query, "[dim, key_dim]: query = x w_query"},
      {"--w-key", &ExplainInput::w_key, "[dim, key_dim]"},
      {"--w-value", &ExplainInput::w_value, "[dim, value_dim]"},
      {"--b-query", &ExplainInput::b_query, "[key_dim], added to each query"},
      {"--b-key", &ExplainInput::b_key, "[key_dim]"},
      {"--b-value", &ExplainInput::b_value, "[value_dim]"},
      {"--w-out", &ExplainInput::w_out, "With --heads: [value_dim, dim]: output = merged heads x w_out",
       needs("--heads")},
      {"--b-out", &ExplainInput::b_out, "With --heads: [dim], added to each output", needs("--heads")},
      {"--mask", &ExplainInput::mask, "[n, n] or broadcast to it: 1 = may attend, 0 = hidden"}};
  return list;
}

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

// Comment lines of a CSV file that describe its rows: "# labels: zero, one" and "# picture: 8 x 8".
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

void refuse_unknown_substitutes(const ExplainInput& input) {
  const std::vector<std::string> names = intermediate_names(input);
  for (const auto& [name, matrix] : input.substitutes) {
    if (std::ranges::find(names, name) != names.end()) continue;
    throw UsageError("--substitute",
                     fmt::format("there is no \"{}\" to substitute; there are {}", name, fmt::join(names, ", ")));
  }
}

bool any_given(const Command& command, std::initializer_list<const char*> options) {
  return std::any_of(options.begin(), options.end(), [&](const char* option) { return command.given(option); });
}

// The options of synthetic input, where nothing is generated that they change.
void refuse_without_effect(const Command& command, const std::vector<std::string>& synthetic) {
  if (command.given("--seed") && synthetic.empty()) {
    throw UsageError("--seed", "has no effect: all numbers are given (--inputs N generates inputs)");
  }
  if (command.given("--init") && (synthetic.empty() || synthetic == std::vector<std::string>{"inputs"})) {
    throw UsageError("--init", "has no effect: all weights are given");
  }
}

ExplainInput input_of(const Command& command, const ExplainOptions& options) {
  const bool own = any_given(
      command, {"--input", "--inputs", "--dim", "--key-dim", "--value-dim", "--init", "--w-embed", "--heads"});
  ExplainInput input;
  if (!own) input = worked_example();
  const auto read = [&](const char* option, const std::string& path, Tensor& tensor) {
    if (command.given(option)) tensor = read_matrix(option, path);
  };
  const auto read_input = [&](std::size_t i) {
    read(matrix_options()[i].name, options.matrices[i], input.*matrix_options()[i].member);
  };
  read_input(0);
  const std::string& inputs = options.matrices[0];
  if (io::has_ending(inputs, ".csv")) read_remarks(inputs, input);
  if (!inputs.empty() && !inputs.starts_with('[')) {
    const std::string file = std::filesystem::path(inputs).filename().string();
    input.title = "Self-attention step by step: " + printable(file);
  }
  for (std::size_t i = 1; i < options.matrices.size(); ++i) read_input(i);
  Tensor* const of_score[] = {&input.score_w_query, &input.score_w_key, &input.score_v, &input.score_w};
  for (std::size_t i = 0; i < std::size(of_score); ++i) {
    const InputArray& file = *options.score->parameters[i];
    if (file.given()) *of_score[i] = read_matrix(file.name, file.paths.front());
  }
  if (own || command.given("--score")) input.score = options.score->kind;
  input.scale = options.scale;
  input.causal = options.causal;
  input.prefix = options.prefix;
  input.window = options.window;
  input.heads = options.heads;
  for (const std::string& text : options.substitutes) {
    const auto [entry, inserted] = input.substitutes.insert(parse_substitute(text));
    if (!inserted) throw UsageError("--substitute", entry->first + " is substituted twice; give each name once");
  }
  const bool changed = any_given(command, {"--w-query", "--w-key", "--w-value", "--b-query", "--b-key", "--b-value",
                                           "--mask", "--score", "--scale", "--causal", "--prefix"}) ||
                       !options.window.parts().empty();
  if (changed) {
    input.tutorial = false;
    input.weights_origin.clear();
  }
  options.score->refuse_surplus();
  input.full = options.full;
  input.stop = interruption();
  refuse_without_effect(command, generate_missing(input, options.synthetic));
  return input;
}

std::vector<Option> synthetic_options(SyntheticInput& synthetic) {
  const Names<Init> inits = {{"normal", Init::normal}, {"xavier", Init::xavier}, {"kaiming", Init::kaiming}};
  return {{"--inputs", size(synthetic.inputs, 4096), "Number of synthetic inputs to generate (default: 3)",
           excludes("--input")},
          {"--dim", size(synthetic.dim, 4096), "Size of a synthetic input (default: 4)", excludes("--input")},
          {"--key-dim", size(synthetic.key_dim, 4096), "Size of a query and a key (default: the size of an input)",
           excludes("--w-query", "--w-key")},
          {"--value-dim", size(synthetic.value_dim, 4096), "Size of a value (default: key_dim)", excludes("--w-value")},
          {"--init", choice(synthetic.init, inits), "How to generate missing weights (default: xavier)"},
          {"--seed", seed(synthetic.seed), "Seed of generated inputs and weights (default: 1)"}};
}

// The files that are read, of which the report must be none.
std::vector<NamedFile> files_of(const ExplainOptions& options) {
  std::vector<NamedFile> files = options.files.names();
  const auto add = [&](const char* option, const std::string& text) {
    if (!text.starts_with('[')) files.push_back({option, text});
  };
  for (std::size_t i = 0; i < options.matrices.size(); ++i) add(matrix_options()[i].name, options.matrices[i]);
  for (const std::string& text : options.substitutes) add("--substitute", text.substr(text.find('=') + 1));
  return files;
}

void run(const Command& command, ExplainOptions& options) {
  TextStyle style = text_style();
  style.width = static_cast<int>(options.width.value_or(style.width));
  style.full = options.full;
  style.heat = options.heat;
  auto line = std::make_unique<WorkingLine>("explaining");
  std::string text;
  if (any_given(command, {"--model", "--precision", "--text", "--image", "--layer", "--head", "--token",
                          "--without-head", "--without-key", "--keep"})) {
    text = explain_model(command, options.model, {options.json, style, options.svg, options.report});
  } else {
    options.report.check(files_of(options), {"--svg", options.svg});
    options.report.read_beside("steps");
    const ExplainInput input = input_of(command, options);
    refuse_unknown_substitutes(input);
    const Explanation explanation = explain(input);
    if (!options.svg.empty()) {
      write_file(options.svg, to_svg(explanation, static_cast<int>(options.step)));
      note_written(options.svg);
    }
    if (options.report.wanted()) options.report.report.add(explanation);
    options.report.write(explanation.title, command.line());
    text = options.json ? to_json(explanation) + "\n" : to_text(explanation, style);
  }
  line.reset();
  write_output(text);
}

}  // namespace

void add_explain(Command& program) {
  Command& command = program.add_command("explain", "Walk through self-attention in eight steps, number by number");
  command.add_examples(
      {{"The worked example of the tutorials", "qkv explain"},
       {"What the heads of the translator attend to", "qkv explain --text 'You are welcome'"},
       {"The same as a page for a browser", "qkv explain --text 'You are welcome' --html heads.html"}});
  const auto options = std::make_shared<ExplainOptions>(command);
  for (std::size_t i = 0; i < options->matrices.size(); ++i) {
    const auto& [name, member, help, rules] = matrix_options()[i];
    command.add({{name, text(options->matrices[i], "FILE|JSON"), help, rules}});
  }
  options->score.emplace(command, options->files,
                         "Score of a query and a key (default: scaled-dot; worked example: dot)");
  command.add({{"--scale", finite(options->scale, "NUMBER"),
                "Factor of the scores (default: 1/sqrt(key_dim) for scaled-dot, else 1)"},
               causal_option(options->causal),
               {"--prefix", whole(options->prefix, 0, 4096), "The first N inputs are visible to all; causal after them",
                excludes("--causal")}});
  command.add(mask_number_options(options->window));
  command.add({{"--heads", size(options->heads, 4096),
                "multi-head attention: split, attend per head, merge, project out (sizes count all heads together)"}});
  command.add(synthetic_options(options->synthetic));
  command.add(
      {{"--substitute",
        {.variable = &options->substitutes, .type = "NAME=FILE|JSON", .count = 1},
        "Use this matrix instead of an intermediate: inputs, embedded, query, key, value, scores, logits or weights; "
        "may be repeated",
        repeated()},
       {"--json", flag(options->json), "Print one JSON object (docs/explain_json.md)"},
       {"--full", flag(options->full),
        "Print every number; by default matrices are shortened to 20 rows, the width and 4 heads, and JSON omits "
        "tensors of all pairs above 256 inputs"},
       {"--heat", flag(options->heat),
        "Print matrices, and with a model the weights of its heads, as heat maps: half blocks in 256 colours, or "
        "letters where the terminal has none",
        excludes("--json")},
       {"--width", whole(options->width, 30, 100'000),
        "Width of the output in columns (default: the terminal's, else 98)", excludes("--json")},
       html_option(options->report),
       beside_option(options->report),
       {"--svg", output_file(options->svg, {".svg"}),
        "Also draw the steps; with a model, the weights of the head given by --layer and --head, or with --image "
        "the heads over the picture"},
       {"--step", whole(options->step, 1, 8), "With --svg: step to draw (default: all)", needs("--svg")},
       threads_option()});
  command.add(model_options(options->model));
  command.on_run([&command, options] { run(command, *options); });
}

}  // namespace qkv::app
