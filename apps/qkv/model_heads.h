// qkv explain --model: what the heads of a model attend to in a text.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "qkv/explain/explain_translation.h"

namespace qkv::app {

struct ModelOptions {
  std::string folder = QKV_MODEL, text;
  std::optional<std::int64_t> layer, head;
  std::optional<AttentionPlace> attention;
  std::optional<std::string> token;
  bool weights = false;
};

// --model, --text, --attention, --layer, --head, --token and --weights; --json must be there already.
void add_model_options(CLI::App& command, ModelOptions& options);

// What the command prints. UsageError for an option of the other explanations.
std::string explain_model(const CLI::App& command, const ModelOptions& options, bool json, const TextStyle& style);

}  // namespace qkv::app
