// Names the rules of a mask and applies them pair by pair, in words and by the definition of each.
#include <fmt/format.h>

#include <functional>

#include "core/mask_kinds.h"
#include "core/stop.h"
#include "explain/explanation_context.h"
#include "explain/intermediates.h"

namespace qkv::inline explaining {
namespace {

struct Rule {
  std::string text;
  std::function<bool(std::int64_t query, std::int64_t key)> hides;
};

std::vector<Rule> rules_of(const ExplainInput& input) {
  std::vector<Rule> rules;
  if (input.causal) {
    rules.push_back({"Look-ahead mask: a query sees no key after itself.", [](auto i, auto j) { return j > i; }});
  }
  if (input.prefix) {
    const std::int64_t prefix = *input.prefix;
    rules.push_back(
        {fmt::format("Prefix: all see the first {} inputs; beyond them a query sees no key after itself.", prefix),
         [prefix](auto i, auto j) { return j >= prefix && j > i; }});
  }
  const auto bounds = bounds_of(input.window);
  const std::int64_t left = bounds.left, right = bounds.right, step = bounds.step;
  if (left >= 0) {
    rules.push_back({fmt::format("Window: a query sees no key more than {} before itself.", left),
                     [=](auto i, auto j) { return j < i - left; }});
  }
  if (right >= 0) {
    rules.push_back({fmt::format("Window: a query sees no key more than {} after itself.", right),
                     [=](auto i, auto j) { return j > i + right; }});
  }
  if (step > 1) {
    rules.push_back({fmt::format("Dilated window: a query sees every key whose distance is a multiple of {}.", step),
                     [step](auto i, auto j) { return (i - j) % step != 0; }});
  }
  if (given(input.mask)) {
    rules.push_back({"The mask given: 0 hides a key.", [&mask = input.mask](auto i, auto j) {
                       const std::int64_t row = mask.size(0) == 1 ? 0 : i, column = mask.size(1) == 1 ? 0 : j;
                       return mask.view().template at<double>({row, column}) == 0;
                     }});
  }
  return rules;
}

}  // namespace

std::optional<ExplainedMask> explained_mask(const ExplainInput& input, std::int64_t n) {
  const std::vector<Rule> rules = rules_of(input);
  if (rules.empty()) return {};
  ExplainedMask mask{.rules = {}, .hidden = Tensor::zeros({n, n}, Dtype::f64)};
  for (const Rule& rule : rules) mask.rules.push_back(rule.text);
  double* hidden = mask.hidden.data<double>();
  for (std::int64_t i = 0; i < n; ++i) {
    check_stop();
    for (std::int64_t j = 0; j < n; ++j, ++hidden) {
      for (std::size_t r = 0; r < rules.size() && *hidden == 0; ++r) {
        if (rules[r].hides(i, j)) *hidden = static_cast<double>(r + 1);
      }
    }
  }
  return mask;
}

}  // namespace qkv::inline explaining
