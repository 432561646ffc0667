/// \file
/// The walk-through of self-attention, with one head or many, in eight steps: every intermediate by name, shape and
/// numbers. The numbers come from the run of the production kernel (qkv/attention.h) in f64 and are compared with the
/// reference on the spot.
///
///     ExplainInput input = worked_example();
///     input.substitutes["weights"] = parse_json_matrix("[[0,.5,.5],[0,1,0],[0,.9,.1]]", "weights");
///     std::cout << to_text(explain(input), {.color = false});
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/attention/attention_plan.h"
#include "qkv/attention/mask.h"
#include "qkv/attention/score.h"
#include "qkv/tensor.h"

namespace qkv {

/// What to explain. Matrices are f64; one left as it is, Tensor(), is not given.
struct ExplainInput {
  std::string title;
  Tensor inputs;                    ///< [n, dim]
  std::vector<std::string> labels;  // one per input; empty: "input 1", "input 2" ...
  Dims picture;                     ///< [height, width] if each input is a picture of so many pixels
  std::string weights_origin;       ///< a sentence on where the weights come from; may be empty
  Tensor w_embed;                   ///< [size, dim]: a = w_embed x replaces the input x
  Tensor w_query, w_key, w_value;   ///< [dim or size, key_dim], [.., key_dim], [.., value_dim]: query = a w_query ...
  Tensor b_query, b_key, b_value;   ///< [key_dim], [key_dim], [value_dim]; added if given
  Score::Kind score = Score::Kind::scaled_dot;
  Tensor score_w_query, score_w_key, score_w, score_v;  ///< parameters of the score, shapes as in score.h
  std::optional<double> scale;                          ///< unset: the default of the score
  std::optional<Align> causal;                          ///< set: look-ahead mask
  std::optional<std::int64_t> prefix;                   ///< set: so many inputs all see; look-ahead mask after them
  Mask window;                                          ///< Mask::window() and Mask::dilated() alone
  Tensor mask;                                          ///< 1: may attend, 0: hidden; broadcastable to [n, n]
  std::map<std::string, Tensor> substitutes;            ///< intermediate's name -> the matrix to use instead
  std::int64_t heads = 0;  ///< 1 or more: multi-head attention (scaled dot, no substitutes)
  Tensor w_out, b_out;     ///< heads: [all heads' values, dim], [dim]: output = merged w_out
  std::stop_token stop;    ///< polled by all that follows, texts and JSON too: Stopped
  bool tutorial = false;   ///< adds the variants and the trap of the known tutorial
  bool full = false;       ///< writes out every line and term, not some of them
};

/// The example of the well-known tutorials: 3 inputs of 4 numbers, weights of 4 x 3, unscaled dot product.
QKV_API ExplainInput worked_example();

enum class Init { normal, xavier, kaiming };

/// How to generate matrices that ExplainInput lacks; each has its own random stream.
struct SyntheticInput {
  std::int64_t inputs = 3;
  std::int64_t dim = 4;
  std::int64_t key_dim = 0;    ///< 0: the dimension of the inputs
  std::int64_t value_dim = 0;  ///< 0: key_dim
  Init init = Init::xavier;    ///< standard deviation 1; sqrt(2 / (rows + columns)); sqrt(2 / inputs of the layer)
  std::uint64_t seed = 1;
};
/// Generates missing inputs and weights, and returns their names.
QKV_API std::vector<std::string> generate_missing(ExplainInput& input, const SyntheticInput& choice);

/// The part that a number plays. Renderers colour by it.
enum class Role { none, input, query, key, value, score, weight, output };

struct Span {
  std::string text;
  Role role = Role::none;
};
using Line = std::vector<Span>;

/// A named tensor.
struct Quantity {
  std::string name;
  Role role = Role::none;
  Tensor values;                  ///< f64, rank 1 to 3
  std::vector<std::string> rows;  ///< names of the rows; may be empty
  bool substituted = false;
  std::vector<std::string> columns{};  ///< names of the columns; may be empty
};

struct Picture {
  std::string caption;
  Tensor pixels;  ///< [height, width]
};

/// Some lines of text, then pictures, then tensors that belong side by side.
struct Block {
  std::vector<Line> lines;
  std::vector<Picture> pictures;
  std::vector<Quantity> quantities;
};

/// A step (number 1 to 8) or a remark between them (number 0).
struct Section {
  int number = 0;
  std::string title;
  std::vector<Block> blocks;
};

/// Which rule hides which key.
struct ExplainedMask {
  std::vector<std::string> rules{};  ///< in words
  Tensor hidden{};  ///< [n, n], f64: 0 where a query sees a key, else the first rule against it, from 1
};

struct Explanation {
  std::string title;
  std::int64_t inputs = 0;
  std::string score;  // "dot", "scaled-dot", "additive", "concat" or "bilinear"
  double scale = 1;
  std::string target;  ///< the CPU target that ran
  std::vector<Section> sections;
  std::optional<ExplainedMask> mask{};   ///< none: all keys are seen
  std::vector<std::string> substituted;  ///< names
  Tensor output;                         ///< [n, value_dim]
  Tensor true_output;                    ///< without the substitutions
  /// Kernel against reference, over output, weights, logits and log-sum-exp; NaN if one of them holds NaN.
  double largest_difference = 0;
  std::optional<AttentionPlan> cost{};  ///< of the call; none: weights were put in
  std::stop_token stop;                 ///< of the input
  bool full = false;                    ///< as in ExplainInput: JSON has tensors of any size
};

/// std::invalid_argument if shapes do not fit, or a name to substitute does not exist (the message lists those that
/// do).
QKV_API Explanation explain(const ExplainInput& input);

struct TextStyle {
  bool color = false;       ///< escape codes of a terminal
  int width = 98;           // columns; wider matrices are shortened with "..."
  bool full = false;        ///< nothing is shortened: every number is there, however long the lines
  bool heat = false;        ///< matrices are heat maps, not numbers: of letters,
  bool colors_256 = false;  ///< or, with color, half blocks in 256 colours
};
QKV_API std::string to_text(const Explanation& explanation, const TextStyle& style = {});

/// The matrices of the steps as an SVG picture, or of one step alone (1 to 8). std::invalid_argument if it is not
/// there.
QKV_API std::string to_svg(const Explanation& explanation, int step = 0);

/// One JSON object (docs/explain_json.md), numbers in full; without `full` no tensors for all pairs of more than 256
/// inputs, nor for all pairs and sizes of more than 12.
QKV_API std::string to_json(const Explanation& explanation);

}  // namespace qkv
