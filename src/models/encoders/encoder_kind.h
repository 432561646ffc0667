// Differences between kinds of encoders when their folders become TextEncoders.
#pragma once

#include <span>
#include <string_view>

#include "models/model_config.h"
#include "models/model_kinds.h"
#include "models/tensor_names.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/text_model.h"

namespace qkv::inline models {

enum class HeadActivation { tanh, relu, gelu, of_config };

// A head under the names of a folder: out(norm(activation(dense(x)))), where what has no name is left out.
struct HeadNames {
  TextTask task;
  const char* out;  // the bias of a masked word's is called out_bias
  const char* out_bias = nullptr;
  const char* dense = nullptr;
  HeadActivation activation = HeadActivation::tanh;
  const char* norm = nullptr;
  bool dense_is_pooler = false;   // its name begins with the prefix of the model's
  bool has_biases = true;         // but for the last layer, which always has
  const char* pooling = nullptr;  // the key of what a sequence_class reads, "cls" or "mean"
};

struct EncoderKind {
  TextEncoderConfig (*read)(const ModelConfig& config);
  void (*name)(const TextEncoderConfig& config, TensorNames& names);  // every tensor that a TextEncoder takes
  const char* prefix;                                                 // of all names, where the model has a head
  std::span<const std::string_view> passed_over;  // beginnings of the names of what no forward pass needs
  std::span<const HeadNames> heads;
  const char* table = "embeddings.word_embeddings.weight";
};

extern const std::span<const HeadNames> kRobertaHeads;  // MPNet's, too

// Reads BERT's config, whose keys and names are RoBERTa's too.
TextEncoderConfig read_bert(const ModelConfig& config);
// All but the types.
struct SizeKeys {
  const char *activation = "hidden_act", *epsilon = "layer_norm_eps";
};
TextEncoderConfig read_sizes(const ModelConfig& config, const SizeKeys& keys = {});
void name_bert(const TextEncoderConfig& config, TensorNames& names);

// Names of the parts of a layer's attention in "encoder.layer.N.".
struct AttentionNames {
  const char *query, *key, *value, *out, *norm;
};
// All but the embeddings of types.
void name_bert(const TextEncoderConfig& config, const AttentionNames& attention, TensorNames& names);

// RoBERTa's positions: the first is the row after that of `padding`, which is called `name`.
void begin_positions_after(std::int32_t padding, std::string_view name, const ModelConfig& json,
                           TextEncoderConfig& config);

}  // namespace qkv::inline models
