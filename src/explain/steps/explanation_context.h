// The explanation context: the input and the results that the eight steps and the remarks around them describe.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/stop.h"
#include "explain/observe/intermediates.h"
#include "qkv/explain/explain.h"

namespace qkv::inline explaining {

struct ExplanationContext {
  const ExplainInput& input;
  const Intermediates& run;    // with the substitutions
  const Intermediates& truth;  // without

  std::int64_t count() const { return run.inputs.size(0); }
  bool substituted(const std::string& name) const { return input.substitutes.contains(name); }
  // Number of lines or terms: `usual`, or all of them.
  std::int64_t most(std::int64_t usual) const { return input.full ? std::numeric_limits<std::int64_t>::max() : usual; }
  std::int64_t terms() const { return most(6); }  // products written out in one sum
  bool has_window() const { return !input.window.parts().empty(); }
  // Whether the mask reaches the logits: logits put in by the user are final.
  bool masked() const {
    return !substituted("logits") && (input.causal || input.prefix || has_window() || given(input.mask));
  }
  // "input 2", or the label that the user gave it; "query 2" or "query of LABEL".
  std::string input_name(std::int64_t i) const;
  std::string name(std::string_view part, std::int64_t i) const;
  std::vector<std::string> names(std::string_view part) const;
};

// The name of a score on the command line.
std::string score_name(Score::Kind kind);

// A line of text in no role.
Line plain(std::string text);

inline void append(Line& line, const Line& spans) { line.insert(line.end(), spans.begin(), spans.end()); }

// A line that so many tokens at the end of a text were not read; none if all were.
std::vector<Line> about_cut(std::int64_t cut);

// "Each row of weights adds up to 1.", or which rows do not. `weights` is [queries, keys] or [heads, queries, keys],
// f64.
std::string about_row_sums(const TensorView& weights, const std::vector<std::string>& queries);

// The sum of a row; 1 if it differs from 1 by rounding alone.
double sum_of_row(const TensorView& weights, std::int64_t row);

// Whether the mask made this logit -inf: a score may be so by itself.
bool is_hidden(double logit, double score);

// " = 1*4 + 0*4", of a query and a key of the same size.
void add_products(Line& line, const TensorView& query, const TensorView& key);

// Up to `most` (at least 3) of the indices 0 ... count - 1; -1 means those left out in the middle.
std::vector<std::int64_t> some_of(std::int64_t count, std::int64_t most);

// Adds a line for each of up to `most` of `count` inputs; "...", for those left out.
template <class LineOf>
void add_lines(Block& block, std::int64_t count, std::int64_t most, const LineOf& line_of) {
  for (const std::int64_t i : some_of(count, most)) {
    check_stop();
    block.lines.push_back(i < 0 ? plain("...") : line_of(i));
  }
}

// Adds an intermediate to a block; the true one follows it if it was substituted.
void add(Block& block, const ExplanationContext& context, const std::string& name, Role role,
         Tensor Intermediates::* member, const std::vector<std::string>& rows);

std::vector<Section> derive_steps(const ExplanationContext& context);  // 1 to 3
std::vector<Section> attend_steps(const ExplanationContext& context);  // 4 to 8

// The walk-through of multi-head attention.
Explanation explain_heads(const ExplainInput& input);

Section about_roles(const ExplanationContext& context, const std::optional<ExplainedMask>& mask);
Section about_attention_between(const ExplanationContext& context);
std::vector<Section> about_tutorials(const ExplanationContext& context);
Section about_check(const ExplanationContext& context, const std::string& target);

// The rules of the mask in words, and which one hides which key of n inputs; nothing without a rule.
std::optional<ExplainedMask> explained_mask(const ExplainInput& input, std::int64_t n);

}  // namespace qkv::inline explaining
