// RoBERTa and XLM-RoBERTa: BERT but for where positions begin. Source: Liu et al., "RoBERTa" (2019).
#include <fmt/format.h>

#include "models/encoder_kind.h"

namespace qkv::inline models {
namespace {

constexpr std::string_view kPassedOver[] = {"embeddings.position_ids", "pooler.", "lm_head."};

BertConfig read_roberta(const ModelConfig& json) {
  BertConfig config = read_bert(json);
  config.padding = json.token("pad_token_id", config.vocab);
  const std::int64_t rows = config.positions;
  config.positions = rows - config.padding - 1;
  if (config.positions < 1) {
    json["max_position_embeddings"].refuse(
        fmt::format("is {}, must be above pad_token_id + 1, {}: positions begin there", rows, config.padding + 1));
  }
  return config;
}

}  // namespace

const EncoderKind kRoberta{.read = read_roberta, .name = name_bert, .prefix = "roberta.", .passed_over = kPassedOver};

}  // namespace qkv::inline models
