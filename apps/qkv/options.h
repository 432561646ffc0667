// Options that several subcommands share, and the arrays that they name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "named_files.h"
#include "qkv/attention/dropout.h"
#include "qkv/attention/empty_rows.h"
#include "qkv/attention/mask.h"
#include "qkv/attention/precision.h"
#include "qkv/attention/score.h"
#include "qkv/tensor.h"

namespace qkv::app {

// --threads N: the threads of everything that the program computes.
Option threads_option();

Option causal_option(std::optional<Align>& align);

// --align, for calls that are not causal.
Option align_option(std::optional<Align>& align);

// --window LEFT,RIGHT and --dilated LEFT,RIGHT,STEP.
std::vector<Option> window_options(Mask& window);

// --dtype with those of the four floating types that the command can compute with.
Option dtype_option(std::optional<Dtype>& dtype, const std::vector<Dtype>& types, const char* help);

Option precision_option(Precision& precision);
Option soft_cap_option(double& soft_cap);
Option empty_rows_option(EmptyRows& empty_rows);

// --dropout P, and --seed N that goes with it.
std::vector<Option> dropout_options(Dropout& dropout);

// --score and the files of its parameters.
struct ScoreOptions {
  Score::Kind kind = Score::Kind::scaled_dot;
  NamedFile w_query{"--score-w-query"}, w_key{"--score-w-key"}, v{"--score-v"}, w{"--score-w"};
};
std::vector<Option> score_options(ScoreOptions& options,
                                  const char* help = "score of a query and a key (default: scaled-dot)");

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
