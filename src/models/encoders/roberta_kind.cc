// RoBERTa and XLM-RoBERTa: BERT but for where positions begin. Source: Liu et al., "RoBERTa" (2019).
#include <fmt/format.h>

#include "models/encoders/encoder_kind.h"

namespace qkv::inline models {
namespace {

constexpr std::string_view kRobertaPassedOver[] = {"embeddings.position_ids", "pooler.", "lm_head."};

constexpr HeadNames kHeads[] = {
    {.task = TextTask::masked_word,
     .out = "lm_head.decoder",
     .out_bias = "lm_head.bias",
     .dense = "lm_head.dense",
     .activation = HeadActivation::gelu,
     .norm = "lm_head.layer_norm"},
    {.task = TextTask::sequence_class, .out = "classifier.out_proj", .dense = "classifier.dense"},
    {.task = TextTask::token_class, .out = "classifier"},
    {.task = TextTask::answer, .out = "qa_outputs"}};

TextEncoderConfig read_roberta(const ModelConfig& json) {
  TextEncoderConfig config = read_bert(json);
  begin_positions_after(json.token("pad_token_id", config.vocab), "pad_token_id", json, config);
  return config;
}

}  // namespace

const std::span<const HeadNames> kRobertaHeads = kHeads;
const EncoderKind kRoberta{
    .read = read_roberta, .name = name_bert, .prefix = "roberta.", .passed_over = kRobertaPassedOver, .heads = kHeads};

void begin_positions_after(std::int32_t padding, std::string_view name, const ModelConfig& json,
                           TextEncoderConfig& config) {
  const std::int64_t rows = config.positions;
  config.padding = padding;
  config.positions = rows - padding - 1;
  if (config.positions < 1) {
    json["max_position_embeddings"].refuse(
        fmt::format("is {}, must be above {} + 1, {}: positions begin there", rows, name, padding + 1));
  }
}

}  // namespace qkv::inline models
