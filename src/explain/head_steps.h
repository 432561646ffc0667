// Steps 2 to 8 of multi-head attention: projected, split, each head's own attention, merged, projected out.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "explain/explanation_context.h"

namespace qkv::inline explaining {

// What is written about one run.
struct HeadsContext {
  const ExplainInput& input;
  const std::map<std::string, Tensor>& run;  // by the names of an observer, without the batch of one
  bool masked = false;                       // keys may be hidden

  std::int64_t count() const { return input.inputs.size(0); }
  std::int64_t columns() const { return input.w_query.size(1); }
  std::int64_t most(std::int64_t usual) const { return input.full ? std::numeric_limits<std::int64_t>::max() : usual; }
  std::int64_t head_dim() const { return columns() / input.heads; }
  std::vector<std::string> names(std::string_view part) const;
  // Of all heads side by side: "head 2.1" is the first number of head 2.
  std::vector<std::string> numbers_of_heads() const;
  // Of each head; `rows` and `columns` name what its inputs are there.
  Quantity quantity(const std::string& name, Role role, std::string_view rows, std::string_view columns = "") const;
};

std::vector<Section> head_steps(const HeadsContext& context);

// "1 head", "2 heads".
std::string counted(std::int64_t count, const char* one, const char* many);

}  // namespace qkv::inline explaining
