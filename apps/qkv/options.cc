// Declares options that several commands share, and checks their values.
#include "options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "io/array_path.h"
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

// All of the text as a number of this type.
template <class Integer>
std::optional<Integer> parse_whole(std::string_view text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

bool is_text(const std::string& path) { return io::has_ending(path, ".csv") || io::has_ending(path, ".json"); }

}  // namespace

CLI::Validator file_name() {
  const auto check = [](std::string& text) {
    const bool fits = !text.empty() && !text.starts_with('-');
    return fits ? std::string() : fmt::format("\"{}\" must be the name of a file (./-x if that is its name)", text);
  };
  return CLI::Validator(check, "");
}

CLI::Option* add_file(CLI::App& command, const std::string& option, std::string& path, const std::string& help) {
  return command.add_option(option, path, help)->check(file_name())->type_name("FILE");
}

void add_threads(CLI::App& command) {
  command
      .add_option_function<int>("--threads", set_threads, "number of threads (default: QKV_THREADS, else all cores)")
      ->check(whole_number(1, 1024))
      ->type_name("N");
}

namespace {

// Whole numbers from -1 upwards, as many as `form` has names.
std::vector<std::int64_t> parse_sides(const std::string& option, const std::string& form, const std::string& text) {
  std::vector<std::int64_t> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto value = parse_whole<std::int64_t>(std::string_view(text).substr(begin, end - begin));
    if (!value || *value < -1) break;
    numbers.push_back(*value);
    begin = end + 1;
  }
  const auto commas = [](const std::string& list) { return std::count(list.begin(), list.end(), ','); };
  if (std::ssize(numbers) != commas(form) + 1 || commas(text) != commas(form)) {
    throw UsageError(option, fmt::format("\"{}\" must be {} numbers {}, each from -1 (open) upwards", text,
                                         commas(form) == 1 ? "two" : "three", form));
  }
  return numbers;
}

}  // namespace

void add_window(CLI::App& command, Mask& window) {
  constexpr const char* kForm = "LEFT,RIGHT";
  command
      .add_option_function<std::string>(
          "--window",
          [&window](const std::string& text) {
            const std::vector<std::int64_t> sides = parse_sides("--window", kForm, text);
            window = window & Mask::window(sides[0], sides[1]);
          },
          "query i sees keys i - LEFT to i + RIGHT; -1: open; i counts as in --causal")
      ->type_name(kForm);
  constexpr const char* kDilatedForm = "LEFT,RIGHT,STEP";
  command
      .add_option_function<std::string>(
          "--dilated",
          [&window](const std::string& text) {
            const std::vector<std::int64_t> sides = parse_sides("--dilated", kDilatedForm, text);
            if (sides[2] < 1) throw UsageError("--dilated", fmt::format("STEP is {}; it must be 1 or more", sides[2]));
            window = window & Mask::dilated(sides[0], sides[1], sides[2]);
          },
          "query i sees every STEP-th key, LEFT of them before it and RIGHT after; -1: all; i counts as in --causal")
      ->type_name(kDilatedForm);
}

namespace {

const std::vector<std::pair<std::string, Align>>& align_names() {
  static const std::vector<std::pair<std::string, Align>> names = {{"top-left", Align::top_left},
                                                                   {"bottom-right", Align::bottom_right}};
  return names;
}

}  // namespace

void add_causal(CLI::App& command, std::optional<Align>& align) {
  add_choice(command, "--causal", align, align_names(),
             "query i sees keys j <= i (top-left) or j <= i + k_len - q_len (bottom-right)");
}

CLI::Option* add_align(CLI::App& command, std::optional<Align>& align) {
  return add_choice(
      command, "--align", align, align_names(),
      "position of query i for --window, --alibi and tables: i (top-left) or i + k_len - q_len (bottom-right); "
      "default: that of --causal, else top-left");
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
             "precision of products: reduced is bf16, if the CPU has it (default: exact)");
}

void add_empty_rows(CLI::App& command, EmptyRows& empty_rows) {
  static const std::vector<std::pair<std::string, EmptyRows>> names = {{"zero", EmptyRows::zero},
                                                                       {"nan", EmptyRows::nan}};
  add_choice(command, "--empty-rows", empty_rows, names,
             "output and weights of a query that sees no key: nan is what PyTorch's softmax gives (default: zero)");
}

CLI::Option* add_seed(CLI::App& command, std::uint64_t& seed, const std::string& help) {
  return command.add_option("--seed", seed, help)
      ->check(CLI::Validator(
          [](std::string& text) {
            const bool fits = parse_whole<std::uint64_t>(text).has_value();
            return fits ? std::string() : fmt::format("\"{}\" must be a whole number from 0 to 2^64 - 1", text);
          },
          ""))
      ->type_name("N");
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
  add_seed(command, dropout.seed, "seed of dropout (default: 0)")->needs(p);
}

CLI::Validator whole_number(std::int64_t least, std::int64_t largest) {
  return CLI::Validator(
      [least, largest](std::string& text) {
        const std::optional<std::int64_t> value = parse_whole<std::int64_t>(text);
        const bool fits = value && *value >= least && *value <= largest;
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
  add_choice(command, "--score", options.kind, score_names(), "score of a query and a key (default: scaled-dot)");
  for (const ScoreParameter& parameter : score_parameters()) {
    add_file(command, parameter.option, options.*parameter.path, parameter.help);
  }
}

namespace {

// Calls f(parameter, given, needed, name of the score) for each parameter that a score may have.
template <class F>
void for_each_parameter(const ScoreOptions& options, const F& f) {
  const auto score = std::ranges::find(score_names(), options.kind, &std::pair<std::string, Score::Kind>::second);
  for (const ScoreParameter& parameter : score_parameters()) {
    f(parameter.option, !(options.*parameter.path).empty(),
      std::ranges::find(parameter.kinds, options.kind) != parameter.kinds.end(), score->first);
  }
}

}  // namespace

void refuse_surplus_score_options(const ScoreOptions& options) {
  for_each_parameter(options, [](const char* option, bool given, bool needed, const std::string& score) {
    if (given && !needed) throw UsageError(option, fmt::format("--score {} has no such parameter", score));
  });
}

void check_score_options(const ScoreOptions& options) {
  refuse_surplus_score_options(options);
  for_each_parameter(options, [](const char* option, bool given, bool needed, const std::string& score) {
    if (needed && !given) throw UsageError("--score " + score, fmt::format("{} is missing", option));
  });
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
