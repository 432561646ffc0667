// The configs of well-known models, by what matters in them: which open, as what, and why the others do not.
#include "models/model_config.h"

#include <fmt/format.h>

#include "models/activation_names.h"
#include "models/models_for_test.h"
#include "qkv/models/bert.h"
#include "qkv/models/marian.h"

namespace qkv {
namespace {

using nlohmann::json;

json with(json config, const char* changes) {
  config.update(json::parse(changes));
  return config;
}

const json kBert = json::parse(R"({
    "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
    "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert", "num_attention_heads": 12,
    "num_hidden_layers": 12, "pad_token_id": 0, "type_vocab_size": 2, "vocab_size": 30522})");
const json kRoberta = with(kBert, R"({
    "architectures": ["RobertaForMaskedLM"], "bos_token_id": 0, "eos_token_id": 2, "layer_norm_eps": 1e-5,
    "max_position_embeddings": 514, "model_type": "roberta", "pad_token_id": 1, "type_vocab_size": 1,
    "vocab_size": 50265})");
const json kMpnet = json::parse(R"({
    "_name_or_path": "microsoft/mpnet-base", "architectures": ["MPNetForMaskedLM"],
    "attention_probs_dropout_prob": 0.1, "bos_token_id": 0, "eos_token_id": 2, "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
    "layer_norm_eps": 1e-5, "max_position_embeddings": 514, "model_type": "mpnet", "num_attention_heads": 12,
    "num_hidden_layers": 12, "pad_token_id": 1, "relative_attention_num_buckets": 32, "transformers_version": "4.8.2",
    "vocab_size": 30527})");
const json kXlmRoberta = with(kRoberta, R"({"model_type": "xlm-roberta", "output_past": true, "vocab_size": 250002})");
const json kDistilBert = json::parse(R"({
    "activation": "gelu", "architectures": ["DistilBertForMaskedLM"], "attention_dropout": 0.1, "dim": 768,
    "dropout": 0.1, "hidden_dim": 3072, "initializer_range": 0.02, "max_position_embeddings": 512,
    "model_type": "distilbert", "n_heads": 12, "n_layers": 6, "pad_token_id": 0, "qa_dropout": 0.1,
    "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": false, "tie_weights_": true, "vocab_size": 30522})");
const json kOpusMt = json::parse(R"({
    "activation_function": "swish", "add_bias_logits": false, "add_final_layer_norm": false,
    "architectures": ["MarianMTModel"], "bad_words_ids": [[58100]], "bos_token_id": 0, "d_model": 512,
    "decoder_attention_heads": 8, "decoder_ffn_dim": 2048, "decoder_layers": 6, "decoder_start_token_id": 58100,
    "encoder_attention_heads": 8, "encoder_ffn_dim": 2048, "encoder_layers": 6, "eos_token_id": 0,
    "is_encoder_decoder": true, "max_position_embeddings": 512, "model_type": "marian", "normalize_before": false,
    "normalize_embedding": false, "num_beams": 6, "pad_token_id": 58100, "scale_embedding": true,
    "static_position_embeddings": true, "vocab_size": 58101})");
const json kBart = with(kOpusMt, R"({
    "activation_function": "gelu", "architectures": ["BartModel"], "d_model": 768, "decoder_attention_heads": 12,
    "decoder_ffn_dim": 3072, "decoder_start_token_id": 2, "encoder_attention_heads": 12, "encoder_ffn_dim": 3072,
    "eos_token_id": 2, "forced_eos_token_id": 2, "max_position_embeddings": 1024, "model_type": "bart",
    "normalize_embedding": true, "pad_token_id": 1, "scale_embedding": false, "static_position_embeddings": false,
    "vocab_size": 50265})");
const json kBartLarge = with(kBart, R"({
    "d_model": 1024, "decoder_attention_heads": 16, "decoder_ffn_dim": 4096, "decoder_layers": 12,
    "encoder_attention_heads": 16, "encoder_ffn_dim": 4096, "encoder_layers": 12})");
const json kMBart = with(kBartLarge, R"({
    "add_final_layer_norm": true, "model_type": "mbart", "normalize_before": true, "scale_embedding": true,
    "vocab_size": 250054})");

// What opens, or the message behind the name of the file.
std::string opened(const json& config) {
  const test::TemporaryFolder folder;
  folder.put("config.json", config.dump());
  try {
    if (Marian::is_in(folder / "")) {
      const MarianConfig c = Marian::read_config(folder / "");
      return fmt::format("Marian: {} and {} layers of {}, {} positions, {}, {} norms", c.encoder_layers,
                         c.decoder_layers, c.model_dim, c.positions, name_of(c.activation),
                         c.norm_order == NormOrder::pre ? "pre" : "post");
    }
    const BertConfig c = Bert::read_config(folder / "");
    return fmt::format("Bert: {} layers of {}, {} positions, {} types, {}", c.layers, c.model_dim, c.positions, c.types,
                       name_of(c.activation));
  } catch (const FormatError& error) {
    const std::string message = error.what(), file = "//config.json: ";
    return message.substr(message.rfind(file) + file.size());
  }
}

TEST(ModelConfig, WellKnownModels) {
  struct Known {
    const char* name;
    json config;
    std::string expected;
  };
  const std::string base = "Bert: 12 layers of 768, 512 positions, ", six = "Bert: 6 layers of 768, 512 positions, ";
  const Known models[] = {
      {"bert-base-uncased", kBert, base + "2 types, gelu"},
      {"bert-base-multilingual-cased",
       with(kBert, R"({"directionality": "bidi", "pooler_fc_size": 768, "pooler_type": "first_token_transform"})"),
       base + "2 types, gelu"},
      {"bert-large-uncased",
       with(kBert, R"({"hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 24})"),
       "Bert: 24 layers of 1024, 512 positions, 2 types, gelu"},
      {"all-MiniLM-L6-v2", with(kBert, R"({"gradient_checkpointing": false, "hidden_size": 384, "num_hidden_layers": 6,
                       "position_embedding_type": "absolute", "use_cache": true})"),
       "Bert: 6 layers of 384, 512 positions, 2 types, gelu"},
      {"bge-small-en-v1.5", with(kBert, R"({"classifier_dropout": null, "hidden_size": 384, "id2label": {"0": "L"}})"),
       "Bert: 12 layers of 384, 512 positions, 2 types, gelu"},
      {"a BERT with the tanh GELU", with(kBert, R"({"hidden_act": "gelu_pytorch_tanh"})"), base + "2 types, gelu_new"},
      {"roberta-base", kRoberta, base + "1 types, gelu"},
      {"distilroberta-base", with(kRoberta, R"({"num_hidden_layers": 6})"), six + "1 types, gelu"},
      {"codebert-base", with(kRoberta, R"({"output_past": true})"), base + "1 types, gelu"},
      {"xlm-roberta-base", kXlmRoberta, base + "1 types, gelu"},
      {"bge-m3", with(kXlmRoberta, R"({"hidden_size": 1024, "max_position_embeddings": 8194, "num_attention_heads": 16,
                             "num_hidden_layers": 24})"),
       "Bert: 24 layers of 1024, 8192 positions, 1 types, gelu"},
      {"distilbert-base-uncased", kDistilBert, six + "0 types, gelu"},
      {"distilbert-base-multilingual-cased", with(kDistilBert, R"({"output_past": true, "vocab_size": 119547})"),
       six + "0 types, gelu"},
      {"all-mpnet-base-v2", kMpnet, base + "0 types, gelu"},
      {"opus-mt-en-de", kOpusMt, "Marian: 6 and 6 layers of 512, 512 positions, swish, post norms"},
      {"opus-mt-tc-big-en-fi",
       with(kOpusMt, R"({"activation_function": "relu", "d_model": 1024, "decoder_vocab_size": 58101,
                         "max_position_embeddings": 1024, "share_encoder_decoder_embeddings": true})"),
       "Marian: 6 and 6 layers of 1024, 1024 positions, relu, post norms"},
      {"bart-base", kBart, "Marian: 6 and 6 layers of 768, 1024 positions, gelu, post norms"},
      {"bart-large-cnn", with(kBartLarge, R"({"force_bos_token_to_be_generated": true, "vocab_size": 50264})"),
       "Marian: 12 and 12 layers of 1024, 1024 positions, gelu, post norms"},
      {"distilbart-cnn-12-6", with(kBartLarge, R"({"decoder_layers": 6, "extra_pos_embeddings": 2})"),
       "Marian: 12 and 6 layers of 1024, 1024 positions, gelu, post norms"},
      {"mbart-large-50", kMBart, "Marian: 12 and 12 layers of 1024, 1024 positions, gelu, pre norms"},
      // Keys of training and of heads, keys that no class knows, and null, which stands for the default.
      {"what does not change the computation",
       with(kBert, R"({"hidden_dropout_prob": 0.5, "classifier_dropout": 0.3, "use_cache": false, "is_decoder": null,
                       "pruned_heads": {}, "problem_type": "regression", "my_own_key": [1, 2]})"),
       base + "2 types, gelu"},
      {"a BERT whose heads were pruned", with(kBert, R"({"pruned_heads": {"1": [0, 2]}})"),
       "pruned_heads must be {} for this model"},
      {"bert-base-uncased-embedding-relative-key", with(kBert, R"({"position_embedding_type": "relative_key"})"),
       "position_embedding_type must be \"absolute\" for this model"},
      {"a RoBERTa that generates", with(kRoberta, R"({"is_decoder": true})"),
       "is_decoder must be false for this model"},
      {"a DistilBERT in 4 bits", with(kDistilBert, R"({"quantization_config": {"load_in_4bit": true}})"),
       "quantization_config must be null for this model"},
      {"a DistilBERT with another GELU", with(kDistilBert, R"({"activation": "quick_gelu"})"),
       R"(activation must be "relu", "gelu", "gelu_new", "gelu_pytorch_tanh", "swish" or "silu", is "quick_gelu")"},
      {"an MPNet with more buckets", with(kMpnet, R"({"relative_attention_num_buckets": 64})"),
       "relative_attention_num_buckets must be 32 for this model"},
      {"a BART with two tables", with(kBart, R"({"share_encoder_decoder_embeddings": false})"),
       "share_encoder_decoder_embeddings must be true for this model"},
      {"a BART of pre-norm layers", with(kBart, R"({"normalize_before": true})"),
       "normalize_before must be false for this model"},
      {"a Marian with learnt positions", with(kOpusMt, R"({"static_position_embeddings": false})"),
       "static_position_embeddings must be true for this model"},
      {"an mBART whose output has a table of its own", with(kMBart, R"({"tie_word_embeddings": false})"),
       "tie_word_embeddings must be true for this model"}};
  for (const Known& model : models) EXPECT_EQ(opened(model.config), model.expected) << model.name;
}

TEST(ModelConfig, OtherTypesAreRefused) {
  const std::string encoders = R"("bert", "roberta", "xlm-roberta", "distilbert" and "mpnet")";
  for (const std::string type : {"gpt2", "llama", "electra", "albert", "deberta-v2", "modernbert"}) {
    EXPECT_EQ(opened({{"model_type", type}}), "model_type is \"" + type + "\"; the supported encoders are " + encoders);
  }
  for (const std::string type : {"t5", "m2m_100", "pegasus", "blenderbot", "whisper"}) {
    EXPECT_EQ(
        opened({{"model_type", type}, {"is_encoder_decoder", true}}),
        "model_type is \"" + type + R"("; the supported encoder-decoders are "marian", "bart", "mbart" and "qkv")");
  }
}

TEST(ModelConfig, ListsAreQuoted) {
  EXPECT_EQ(quoted_list({"a"}, "or"), "\"a\"");
  EXPECT_EQ(quoted_list({"a", "b"}, "or"), "\"a\" or \"b\"");
  EXPECT_EQ(quoted_list({"a", "b", "c"}, "and"), "\"a\", \"b\" and \"c\"");
}

}  // namespace
}  // namespace qkv
