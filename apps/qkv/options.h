// Options that several subcommands share, and the arrays that they name.
#pragma once

#include <CLI/CLI.hpp>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "program.h"
#include "qkv/attention/dropout.h"
#include "qkv/attention/empty_rows.h"
#include "qkv/attention/mask.h"
#include "qkv/attention/precision.h"
#include "qkv/attention/score.h"
#include "qkv/tensor.h"

namespace qkv::app {

// What the name of a file must be: not empty, and no other option taken for it.
CLI::Validator file_name();

// An option that names a file.
CLI::Option* add_file(CLI::App& command, const std::string& option, std::string& path, const std::string& help);

// --threads N: the threads of everything that the program computes.
void add_threads(CLI::App& command);

// An option whose value is one of a few names: add_choice(command, "--causal", align, kAligns, "...").
template <class Target, class Choice>
CLI::Option* add_choice(CLI::App& command, const std::string& option, Target& target,
                        const std::vector<std::pair<std::string, Choice>>& choices, const std::string& help) {
  std::string names;
  for (const auto& [name, value] : choices) names += (names.empty() ? "" : "|") + name;
  const auto choose = [&target, option, choices, names](const std::string& text) {
    for (const auto& [name, value] : choices) {
      if (name == text) {
        target = value;
        return;
      }
    }
    throw UsageError(option, "\"" + text + "\" must be one of " + names);
  };
  return command.add_option_function<std::string>(option, choose, help)->type_name(names);
}

// --causal top-left|bottom-right.
void add_causal(CLI::App& command, std::optional<Align>& align);

// --align top-left|bottom-right, for calls that are not causal.
CLI::Option* add_align(CLI::App& command, std::optional<Align>& align);

// --window LEFT,RIGHT and --dilated LEFT,RIGHT,STEP.
void add_window(CLI::App& command, Mask& window);

// --dtype with those of the four floating types that the command can compute with.
void add_dtype(CLI::App& command, std::optional<Dtype>& dtype, const std::vector<Dtype>& types,
               const std::string& help);

// --precision exact|reduced.
void add_precision(CLI::App& command, Precision& precision);

// --empty-rows zero|nan.
void add_empty_rows(CLI::App& command, EmptyRows& empty_rows);

// --seed N, from 0 to 2^64 - 1.
CLI::Option* add_seed(CLI::App& command, std::uint64_t& seed, const std::string& help);

// --dropout P, and --seed N that goes with it.
void add_dropout(CLI::App& command, Dropout& dropout);

// What a number on the command line must be. NaN and infinities are refused.
CLI::Validator whole_number(std::int64_t least, std::int64_t largest);
CLI::Validator finite_number(double least = std::numeric_limits<double>::lowest());

// --score and the files of its parameters.
struct ScoreOptions {
  Score::Kind kind = Score::Kind::scaled_dot;
  std::string w_query;
  std::string w_key;
  std::string v;
  std::string w;
};
void add_score_options(CLI::App& command, ScoreOptions& options);

// UsageError if a parameter is given that the chosen score has not.
void refuse_surplus_score_options(const ScoreOptions& options);
// UsageError unless exactly the parameters of the chosen score are given.
void check_score_options(const ScoreOptions& options);

// A score's parameters in memory; score() borrows them.
struct ScoreParameters {
  Score::Kind kind = Score::Kind::scaled_dot;
  Tensor w_query;  // concat and bilinear: w
  Tensor w_key;
  Tensor v;

  Score score() const;
};
ScoreParameters read_score_parameters(const ScoreOptions& options, Dtype accumulation);

// The type that attention accumulates in: f64 for f64, else f32.
Dtype accumulation_of(Dtype dtype);

// The array in `path`, which `option` named, as `dtype` (f32 or f64). Other types are refused where the conversion
// could round; numbers in text (.csv, .json) have no type of their own and take the one asked for.
Tensor read_parameter(const std::string& option, const std::string& path, Dtype dtype);

}  // namespace qkv::app
