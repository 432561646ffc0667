// Tells the configs of trainings apart, and trains what they say.
#include "qkv/train/train_files.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "io/json/json_document.h"
#include "qkv/train/train_classifier.h"
#include "qkv/train/train_language.h"
#include "qkv/train/train_text.h"

namespace qkv {
namespace {

constexpr std::pair<const char*, TrainedKind> kKinds[] = {
    {"language", TrainedKind::language}, {"classes", TrainedKind::classes}, {"pairs", TrainedKind::pairs},
    {"tokens", TrainedKind::tokens},     {"masked", TrainedKind::masked},   {"contrast", TrainedKind::contrast}};

TrainTextFiles text_files(const TrainTranslatorFiles& files) {
  return {.config = files.config,
          .train = files.train,
          .valid = files.valid,
          .from = files.from,
          .out = files.out,
          .lines = files.lines};
}

}  // namespace

TrainedKind trained_kind(const std::string& config) {
  const io::JsonDocument document = io::JsonDocument::of_config(config);
  const io::JsonValue root = document.root();
  if (root.find("pictures")) return TrainedKind::pictures;
  const auto kind = root.find("kind");
  if (!kind) return TrainedKind::translator;
  std::vector<std::string> names;
  for (const auto& [name, known] : kKinds) {
    if (kind->string() == name) return known;
    names.emplace_back(name);
  }
  kind->refuse(fmt::format("must be one of {}", fmt::join(names, ", ")));
}

TrainingResult train_files(const TrainTranslatorFiles& files, const TrainingOptions& options) {
  switch (trained_kind(files.config)) {
    case TrainedKind::pictures:
      return train_classifier({.config = files.config, .train = files.train, .valid = files.valid, .out = files.out},
                              options);
    case TrainedKind::language:
      return train_language({.config = files.config,
                             .train = files.train,
                             .valid = files.valid,
                             .tokenizer = files.tokenizer,
                             .from = files.from,
                             .out = files.out,
                             .lines = files.lines},
                            options);
    case TrainedKind::classes:
    case TrainedKind::pairs:
    case TrainedKind::tokens:
    case TrainedKind::masked:
      return train_text(text_files(files), options);
    case TrainedKind::contrast:
      return train_sentences(text_files(files), options);
    case TrainedKind::translator:
      break;
  }
  return train_translator(files, options);
}

}  // namespace qkv
