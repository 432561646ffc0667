#include "qkv/options.h"

#include <fmt/format.h>

#include <algorithm>
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

void add_threads(CLI::App& command) {
  command
      .add_option_function<int>("--threads", set_threads,
                                "threads to compute on (default: QKV_THREADS, else all cores)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
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

CLI::Validator finite_number() {
  const auto check = [](std::string& text) {
    double value = 0;
    const bool fits = CLI::detail::lexical_cast(text, value) && std::isfinite(value);
    return fits ? std::string() : "\"" + text + "\" must be a finite number";
  };
  return CLI::Validator(check, "");
}

void add_score_options(CLI::App& command, ScoreOptions& options) {
  add_choice(command, "--score", options.kind, score_names(), "how a query meets a key (default: scaled-dot)");
  for (const ScoreParameter& parameter : score_parameters()) {
    command.add_option(parameter.option, options.*parameter.path, parameter.help)->type_name(kArrayType);
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
