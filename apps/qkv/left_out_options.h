// --without-head and --without-key: what a model's run does without.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "command_line.h"
#include "qkv/explain/explainable.h"

namespace qkv::app {

struct LeftOutOptions {
  std::vector<std::string> heads{}, keys{};

  bool given() const { return !heads.empty() || !keys.empty(); }
  // UsageError for what is no head or token; std::invalid_argument for a token that the input does not have.
  LeftOut of(const Attentions& attentions) const;
  // As they stand in a command: " --without-head encoder.0.1".
  std::string words() const;
};

// `rules`: of both beside that they may be repeated.
std::vector<Option> left_out_options(LeftOutOptions& options, const Rules& rules = {});

// What `make` makes of nothing to leave out, or of what the options leave out.
template <class Make>
auto without_left_out(const LeftOutOptions& options, const Make& make) {
  auto whole = make(LeftOut());
  return options.given() ? make(options.of(whole.attentions())) : std::move(whole);
}

}  // namespace qkv::app
