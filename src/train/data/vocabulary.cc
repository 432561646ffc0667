// Finds or learns the tokenizer of a training.
#include "train/data/vocabulary.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/files/byte_source.h"
#include "qkv/error.h"
#include "qkv/files.h"

namespace qkv::training {
namespace {

constexpr const char* kUnknown = "<unk>";

}  // namespace

std::string given_tokenizer(const std::string& file, const std::string& from, const std::string& name) {
  return file.empty() && !from.empty() ? from + "/" + name : file;
}

Vocabulary::Vocabulary(const std::string& out, const std::string& name, const std::string& given, EndTokenPlace place)
    : name_(name),
      path_(given.empty() ? out + "/" + name : given),
      place_(place),
      is_given_(!given.empty()),
      is_found_(is_given_ || std::filesystem::exists(path_)),
      json_(is_found_ ? read_file(path_) : TokenizerTrainer(place).train(TokenizerTrainer::kSmallestVocab)),
      tokenizer_(Tokenizer::parse(json_, path_)) {}

void Vocabulary::learn(const std::vector<const std::string*>& texts, std::int64_t vocab, const Notice& notice) {
  if (is_found_) return;
  TokenizerTrainer trainer(place_);
  for (const std::string* text : texts) trainer.add(*text);
  json_ = trainer.train(vocab);
  tokenizer_ = Tokenizer::parse(json_, path_);
  if (tokenizer_.vocab() == vocab) return;
  notice(fmt::format("{}: {} tokens instead of {}: no other adjacent pair occurs twice", name_, tokenizer_.vocab(),
                     vocab));
}

std::string Vocabulary::checksum() const { return fmt::format("{:08x}", io::crc32(json_)); }

std::int32_t Vocabulary::need(const std::string& token) const {
  const auto id = tokenizer_.id_of(token);
  if (!id) throw FormatError(fmt::format("{}: has no token \"{}\"", path_, token));
  return *id;
}

void write_tokenizer_config(const std::string& folder, const Tokenizer& tokenizer, std::int64_t positions) {
  nlohmann::ordered_json json{{"tokenizer_class", "PreTrainedTokenizerFast"},
                              {"model_max_length", positions},
                              {"eos_token", kEnd},
                              {"pad_token", kPadding},
                              {"clean_up_tokenization_spaces", false}};
  if (tokenizer.id_of(kUnknown)) json["unk_token"] = kUnknown;
  write_file(folder + "/tokenizer_config.json", json.dump(2) + "\n");
}

}  // namespace qkv::training
