// Finds, reads or learns the tokenizers of a training.
#include "train/vocabularies.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/refuse.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/text/train_tokenizer.h"

namespace qkv::training {
namespace {

std::string given_tokenizer(const TrainTranslatorFiles& files, const std::string& option, const std::string& name) {
  return option.empty() && !files.from.empty() ? files.from + "/" + name : option;
}

}  // namespace

Vocabulary::Vocabulary(const TrainTranslatorFiles& files, const std::string& name, const std::string& given)
    : name_(name),
      path_(given.empty() ? files.out + "/" + name : given),
      is_given_(!given.empty()),
      is_found_(is_given_ || std::filesystem::exists(path_)),
      json_(is_found_ ? read_file(path_) : TokenizerTrainer().train(TokenizerTrainer::kSmallestVocab)),
      tokenizer_(Tokenizer::parse(json_, path_)) {}

void Vocabulary::learn(const std::vector<const std::string*>& texts, std::int64_t vocab, const Notice& notice) {
  if (is_found_) return;
  TokenizerTrainer trainer;
  for (const std::string* text : texts) trainer.add(*text);
  json_ = trainer.train(vocab);
  tokenizer_ = Tokenizer::parse(json_, path_);
  if (tokenizer_.vocab() == vocab) return;
  notice(fmt::format("{}: {} tokens instead of {}: no other pair of neighbours occurs twice", name_, tokenizer_.vocab(),
                     vocab));
}

std::int32_t Vocabulary::need(const std::string& token) const {
  const auto id = tokenizer_.id_of(token);
  if (!id) throw FormatError(fmt::format("{}: has no token \"{}\"", path_, token));
  return *id;
}

std::vector<Vocabulary> find_vocabularies(const TrainTranslatorFiles& files, Vocabularies sides) {
  if (sides == Vocabularies::shared && !files.target_tokenizer.empty()) {
    refuse("train", "{} is for targets only; set tokenizer.vocabularies to \"separate\"", files.target_tokenizer);
  }
  std::vector<Vocabulary> all;
  all.emplace_back(files, kTokenizerFile, given_tokenizer(files, files.tokenizer, kTokenizerFile));
  if (sides == Vocabularies::separate) {
    all.emplace_back(files, kTargetTokenizerFile, given_tokenizer(files, files.target_tokenizer, kTargetTokenizerFile));
  }
  return all;
}

}  // namespace qkv::training
