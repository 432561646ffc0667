// Opens a folder of an encoder with a head.
#include "pipelines/texts/text_folder.h"

#include <fmt/format.h>

#include "pipelines/pipeline_folder.h"
#include "qkv/error.h"

namespace qkv::inline pipelines {
namespace {

std::string tokenizer_path(const std::string& folder) { return folder + "/tokenizer.json"; }

}  // namespace

TextFolder open_text_folder(const std::string& folder, TextTask task, WeightStorage storage) {
  TextModel model = TextModel::load(folder, task, storage);
  const TextEncoderConfig& config = model.encoder().config();
  const std::size_t max_length = tokens_read(read_max_length(folder), config.positions);
  Tokenizer tokenizer = Tokenizer::load(tokenizer_path(folder), config.vocab);
  return {std::move(model), std::move(tokenizer), max_length};
}

void expect_pairs(const TextFolder& opened, const std::string& folder) {
  try {
    opened.tokenizer.encode_pair("", "", opened.max_length);
  } catch (const std::invalid_argument& error) {
    throw FormatError(fmt::format("{}: {}", tokenizer_path(folder), error.what()));
  }
}

std::string mask_of(const Tokenizer& tokenizer) {
  for (const std::string& special : tokenizer.special_tokens()) {
    if (special == "[MASK]" || special == "<mask>") return special;
  }
  return {};
}

}  // namespace qkv::inline pipelines
