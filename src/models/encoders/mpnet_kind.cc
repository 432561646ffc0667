// MPNet: RoBERTa's positions, no types, and a table of biases by relative position that all layers share. Source: Song
// et al., "MPNet: Masked and permuted pre-training for language understanding" (2020).
#include "models/encoders/encoder_kind.h"

namespace qkv::inline models {
namespace {

constexpr std::string_view kMpnetPassedOver[] = {"embeddings.position_ids", "pooler.", "lm_head."};
// transformers' class computes 32 buckets up to a distance of 128 regardless of config.json, and takes 1 for padding.
constexpr std::int64_t kBuckets = 32;
constexpr std::int32_t kPadding = 1;
constexpr FixedKey kMpnetFixed[] = {{"relative_attention_num_buckets", "32"}};

TextEncoderConfig read_mpnet(const ModelConfig& json) {
  json.expect(kMpnetFixed);
  TextEncoderConfig config = read_sizes(json);
  config.relative_buckets = kBuckets;
  begin_positions_after(kPadding, "the padding's id", json, config);
  return config;
}

void name_mpnet(const TextEncoderConfig& config, TensorNames& names) {
  name_bert(config,
            {.query = "attention.attn.q",
             .key = "attention.attn.k",
             .value = "attention.attn.v",
             .out = "attention.attn.o",
             .norm = "attention.LayerNorm"},
            names);
  names.add("relative_bias.weight", {config.relative_buckets, config.heads},
            {"encoder.relative_attention_bias.weight"});
}

}  // namespace

const EncoderKind kMpnet{.read = read_mpnet,
                         .name = name_mpnet,
                         .prefix = "mpnet.",
                         .passed_over = kMpnetPassedOver,
                         .heads = kRobertaHeads};

}  // namespace qkv::inline models
