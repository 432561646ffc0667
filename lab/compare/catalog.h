// The compared models and tasks, and the sizes at which models of all kinds have the same number of parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/compare/sequence_tasks.h"
#include "lab/models/sequence_model.h"
#include "lab/models/translator_model.h"

namespace qkv::comparison {

// A task and its models, by name.
struct CatalogTask {
  std::string name;
  std::vector<std::string> models;
  std::string question;            // for the table
  std::string at;                  // what makes it harder
  double chance = 1.0 / kSymbols;  // of a guess to be right
  std::int64_t parameters = 24'000;
  std::int64_t seeds = 3;
  // Training.
  std::int64_t steps = 0;
  std::int64_t batch_tokens = 2048;
  double rate = 3e-3;
  std::int64_t examples = 1000;  // measured at each point; 0: all there are
};
const std::vector<CatalogTask>& catalog();
// All functions below throw std::invalid_argument for an unknown name.
const CatalogTask& catalog_task(const std::string& name);

std::vector<std::string> model_names();  // all that have a task

// A Transformer is both.
bool is_reader(const std::string& model);  // a sequence model
bool is_translator(const std::string& model);

SequenceTask sequence_task(const std::string& task);
SequenceKind sequence_kind(const std::string& model);
TranslatorKind translator_kind(const std::string& model);

// A sequence model of this vocabulary whose number of parameters is as near to `parameters` as can be.
SequenceModelConfig sized(SequenceKind kind, std::int64_t vocab, std::int64_t parameters);

// A translator of about `parameters`: within 1.5 % of the number that all kinds come nearest to.
TranslatorConfig sized(TranslatorKind kind, const EncoderDecoderTokens& tokens, std::int64_t parameters);

}  // namespace qkv::comparison
