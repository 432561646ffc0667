#include "qkv/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "qkv/files.h"
#include "qkv/threads.h"

namespace qkv::app {
namespace {

struct ScoreParameter {
  const char* option;
  std::string ScoreOptions::* path;
  std::vector<Score::Kind> kinds;
  const char* help;
};

const std::vector<ScoreParameter>& score_parameters() {
  using enum Score::Kind;
  static const std::vector<ScoreParameter> list = {
      {"--score-w-query", &ScoreOptions::w_query, {additive}, "additive: [hidden, query size]"},
      {"--score-w-key", &ScoreOptions::w_key, {additive}, "additive: [hidden, key size]"},
      {"--score-v", &ScoreOptions::v, {additive, concat}, "additive and concat: [hidden]"},
      {"--score-w",
       &ScoreOptions::w,
       {concat, bilinear},
       "concat: [hidden, query size + key size]; bilinear: [query size, key size]"}};
  return list;
}

const std::vector<std::pair<std::string, Score::Kind>>& score_names() {
  using enum Score::Kind;
  static const std::vector<std::pair<std::string, Score::Kind>> names = {
      {"dot", dot}, {"scaled-dot", scaled_dot}, {"additive", additive}, {"concat", concat}, {"bilinear", bilinear}};
  return names;
}

bool is_text(const std::string& path) { return path.ends_with(".csv") || path.ends_with(".json"); }

}  // namespace

CLI::Option* add_file(CLI::App& command, const std::string& option, std::string& path, const std::string& help) {
  const auto check = [](std::string& text) {
    const bool fits = !text.empty() && !text.starts_with('-');
    return fits ? std::string() : fmt::format("\"{}\" must be the name of a file (./-x if that is its name)", text);
  };
  return command.add_option(option, path, help)->check(CLI::Validator(check, ""))->type_name("FILE");
}

void add_threads(CLI::App& command) {
  command
      .add_option_function<int>("--threads", set_threads,
                                "threads to compute on (default: QKV_THREADS, else all cores)")
      ->check(whole_number(1, 1024))
      ->type_name("N");
}

namespace {

Mask parse_window(const std::string& text) {
  const auto number = [](std::string_view digits) -> std::optional<std::int64_t> {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
    if (error != std::errc{} || end != digits.end() || value < -1) return std::nullopt;
    return value;
  };
  const std::size_t comma = std::min(text.find(','), text.size());
  const auto left = number(std::string_view(text).substr(0, comma));
  const auto right = number(std::string_view(text).substr(std::min(comma + 1, text.size())));
  if (!left || !right) {
    throw UsageError("--window", "\"" + text + "\" must be two numbers LEFT,RIGHT, each from -1 (open) upwards");
  }
  return Mask::window(*left, *right);
}

}  // namespace

void add_window(CLI::App& command, Mask& window) {
  command
      .add_option_function<std::string>(
          "--window", [&window](const std::string& text) { window = parse_window(text); },
          "query i sees keys i - LEFT to i + RIGHT; -1: open; i counts as in --causal")
      ->type_name("LEFT,RIGHT");
}

void add_causal(CLI::App& command, std::optional<Align>& align) {
  static const std::vector<std::pair<std::string, Align>> names = {{"top-left", Align::top_left},
                                                                   {"bottom-right", Align::bottom_right}};
  add_choice(command, "--causal", align, names,
             "query i sees keys j <= i (top-left) or j <= i + k_len - q_len (bottom-right)");
}

void add_dtype(CLI::App& command, std::optional<Dtype>& dtype, const std::vector<Dtype>& types,
               const std::string& help) {
  std::vector<std::pair<std::string, Dtype>> names;
  for (const Dtype type : types) names.emplace_back(name_of(type), type);
  add_choice(command, "--dtype", dtype, names, help);
}

void add_precision(CLI::App& command, Precision& precision) {
  static const std::vector<std::pair<std::string, Precision>> names = {{"exact", Precision::exact},
                                                                       {"reduced", Precision::reduced}};
  add_choice(command, "--precision", precision, names,
             "what to multiply in: reduced is bf16, where the CPU has it (default: exact)");
}

void add_dropout(CLI::App& command, Dropout& dropout) {
  const auto check = [](std::string& text) {
    double p = 0;
    if (CLI::detail::lexical_cast(text, p) && p >= 0 && p <= 1) return std::string();
    return fmt::format("\"{}\" must be a number from 0 to 1", text);
  };
  CLI::Option* p = command.add_option("--dropout", dropout.p, "probability that a weight becomes 0 (default: 0)")
                       ->check(CLI::Validator(check, ""))
                       ->type_name("P");
  command.add_option("--seed", dropout.seed, "of dropout (default: 0)")->needs(p)->type_name("N");
}

CLI::Validator whole_number(std::int64_t least, std::int64_t largest) {
  return CLI::Validator(
      [least, largest](std::string& text) {
        std::int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool fits =
            error == std::errc{} && end == text.data() + text.size() && value >= least && value <= largest;
        return fits ? std::string() : fmt::format("\"{}\" must be a whole number from {} to {}", text, least, largest);
      },
      "");
}

CLI::Validator finite_number(double least) {
  return CLI::Validator(
      [least](std::string& text) {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value >= least) return std::string();
        return fmt::format("\"{}\" must be a finite number{}", text, least == 0 ? ", 0 or above" : "");
      },
      "");
}

void add_score_options(CLI::App& command, ScoreOptions& options) {
  add_choice(command, "--score", options.kind, score_names(), "how a query meets a key (default: scaled-dot)");
  for (const ScoreParameter& parameter : score_parameters()) {
    add_file(command, parameter.option, options.*parameter.path, parameter.help);
  }
}

void check_score_options(const ScoreOptions& options) {
  std::string name;
  for (const auto& [text, kind] : score_names()) {
    if (kind == options.kind) name = text;
  }
  for (const ScoreParameter& parameter : score_parameters()) {
    const bool given = !(options.*parameter.path).empty();
    const bool needed = std::ranges::find(parameter.kinds, options.kind) != parameter.kinds.end();
    if (needed && !given) throw UsageError("--score " + name, fmt::format("{} is missing", parameter.option));
    if (given && !needed) throw UsageError(parameter.option, fmt::format("--score {} has no such parameter", name));
  }
}

Score ScoreParameters::score() const {
  switch (kind) {
    case Score::Kind::scaled_dot:
      return Score::scaled_dot();
    case Score::Kind::dot:
      return Score::dot();
    case Score::Kind::additive:
      return Score::additive(w_query, w_key, v);
    case Score::Kind::concat:
      return Score::concat(w_query, v);
    case Score::Kind::bilinear:
      return Score::bilinear(w_query);
  }
  throw std::logic_error("score of unknown kind");
}

ScoreParameters read_score_parameters(const ScoreOptions& options, Dtype accumulation) {
  check_score_options(options);
  ScoreParameters parameters{.kind = options.kind, .w_query = {}, .w_key = {}, .v = {}};
  const auto read = [&](const char* option, const std::string& path, Tensor& target) {
    if (!path.empty()) target = read_parameter(option, path, accumulation);
  };
  read("--score-w-query", options.w_query, parameters.w_query);
  read("--score-w", options.w, parameters.w_query);
  read("--score-w-key", options.w_key, parameters.w_key);
  read("--score-v", options.v, parameters.v);
  return parameters;
}

Dtype accumulation_of(Dtype dtype) { return dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

Tensor read_parameter(const std::string& option, const std::string& path, Dtype dtype) {
  Tensor array = read_array(path);
  if (array.dtype() == dtype) return array;
  const bool exact = is_floating(array.dtype()) && array.dtype() != Dtype::f64;
  if (!exact && !is_text(path)) {
    throw std::invalid_argument(
        fmt::format("{} {} holds {}; it must be {}", option, path, name_of(array.dtype()),
                    dtype == Dtype::f64 ? "a floating type" : "f32, or f64 where the queries are f64"));
  }
  return convert(array, dtype);
}

}  // namespace qkv::app
