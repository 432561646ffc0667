// Opens a folder of an encoder with a head.
#include "pipelines/texts/text_folder.h"

#include <fmt/format.h>

#include "io/files/descriptor.h"
#include "io/json/json_document.h"
#include "pipelines/pipeline_folder.h"
#include "qkv/error.h"

namespace qkv {
namespace {

std::string tokenizer_path(const std::string& folder) { return folder + "/tokenizer.json"; }

ClassScores scores_of(const TextHeadConfig& head) {
  if (head.problem == TextProblem::regression) return ClassScores::logits;
  const bool is_alone = head.problem == TextProblem::multi_label || head.outputs == 1;
  return is_alone ? ClassScores::sigmoid : ClassScores::softmax;
}

}  // namespace

TextPipeline TextPipeline::load(const std::string& folder, TextTask task, WeightStorage storage) {
  TextModel model = TextModel::load(folder, task, storage);
  const TextEncoderConfig& config = model.encoder().config();
  const std::size_t max_length = tokens_read(read_max_length(folder), config.positions);
  Tokenizer tokenizer = Tokenizer::load(tokenizer_path(folder), config.vocab);
  TextPipeline opened(std::move(model), std::move(tokenizer), max_length);
  if (task != TextTask::sequence_class) return opened;
  const TextHeadConfig& head = opened.model().config();
  opened.scores_ = scores_of(head);
  if (head.outputs == 1) opened.ranks_by_sigmoid_ = scores_are_sigmoid(folder);
  return opened;
}

bool TextPipeline::is_in(const std::string& folder) {
  const auto task = TextModel::task_in(folder);
  if (!task || *task == TextTask::masked_word) return false;
  const std::string modules = folder + "/modules.json";
  return !io::is_there(modules) || io::JsonDocument::of_config(modules).root().size() == 1;
}

inline namespace pipelines {

TextPipeline open_pairs(const std::string& folder, TextTask task, WeightStorage storage) {
  TextPipeline opened = TextPipeline::load(folder, task, storage);
  try {
    opened.tokenizer().encode_pair("", "", opened.max_length());
  } catch (const std::invalid_argument& error) {
    throw FormatError(fmt::format("{}: {}", tokenizer_path(folder), error.what()));
  }
  return opened;
}

}  // namespace pipelines
}  // namespace qkv
