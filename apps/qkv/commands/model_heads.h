// qkv explain --model: what the heads of a model attend to in a text or a picture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "commands/report_file.h"
#include "inputs/head_options.h"
#include "inputs/options.h"
#include "qkv/explain/explain.h"

namespace qkv::app {

struct ModelOptions {
  std::string folder, text, image;  // no folder: the translator that comes with qkv
  std::optional<std::int64_t> layer, head;
  std::optional<std::string> attention, token;
  std::optional<std::int64_t> write;  // so many tokens behind the text
  LeftOutOptions left_out;
  KeptHeads keep;
  bool weights = false;
  ModelStorage storage{};  // without other weights
};

// --model, --text, --image, --attention, --layer, --head, --token, --weights, --keep, --keep-rows, --without-head and
// --without-key.
std::vector<Option> model_options(ModelOptions& options);

// The form of an explanation.
struct ExplanationForm {
  bool json = false;
  TextStyle style{};
  std::string svg;  // file of the picture; empty: none
  ReportFile& report;
  bool tells_fingerprint = false;
  std::string fingerprint{};  // of the model, which explain_model() finds; empty: not told
};

// The explanation of what the model reads, as text or JSON; the report, if one is wanted, has it then.
std::string explain_model(const ModelOptions& options, const ExplanationForm& form);

// The output of the command; also writes the report, if requested. UsageError for an option of the other explanations.
std::string explain_model(const Command& command, ModelOptions options, ExplanationForm form);

}  // namespace qkv::app
