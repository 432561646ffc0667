// The configs of well-known models, by what matters in them: which open, as what, and why the others do not.
#include "models/model_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "io/files_for_test.h"
#include "qkv/models/bert.h"
#include "qkv/models/marian.h"

namespace qkv {
namespace {

using nlohmann::json;

json with(json config, const json& changes) {
  config.update(changes);
  return config;
}

const json kBert = {{"architectures", {"BertForMaskedLM"}},
                    {"attention_probs_dropout_prob", 0.1},
                    {"hidden_act", "gelu"},
                    {"hidden_dropout_prob", 0.1},
                    {"hidden_size", 768},
                    {"initializer_range", 0.02},
                    {"intermediate_size", 3072},
                    {"layer_norm_eps", 1e-12},
                    {"max_position_embeddings", 512},
                    {"model_type", "bert"},
                    {"num_attention_heads", 12},
                    {"num_hidden_layers", 12},
                    {"pad_token_id", 0},
                    {"type_vocab_size", 2},
                    {"vocab_size", 30522}};
const json kRoberta = with(kBert, {{"architectures", {"RobertaForMaskedLM"}},
                                   {"bos_token_id", 0},
                                   {"eos_token_id", 2},
                                   {"layer_norm_eps", 1e-5},
                                   {"max_position_embeddings", 514},
                                   {"model_type", "roberta"},
                                   {"pad_token_id", 1},
                                   {"type_vocab_size", 1},
                                   {"vocab_size", 50265}});
const json kMpnet = {{"_name_or_path", "microsoft/mpnet-base"},
                     {"architectures", {"MPNetForMaskedLM"}},
                     {"attention_probs_dropout_prob", 0.1},
                     {"bos_token_id", 0},
                     {"eos_token_id", 2},
                     {"hidden_act", "gelu"},
                     {"hidden_dropout_prob", 0.1},
                     {"hidden_size", 768},
                     {"initializer_range", 0.02},
                     {"intermediate_size", 3072},
                     {"layer_norm_eps", 1e-5},
                     {"max_position_embeddings", 514},
                     {"model_type", "mpnet"},
                     {"num_attention_heads", 12},
                     {"num_hidden_layers", 12},
                     {"pad_token_id", 1},
                     {"relative_attention_num_buckets", 32},
                     {"transformers_version", "4.8.2"},
                     {"vocab_size", 30527}};
const json kXlmRoberta = with(kRoberta, {{"model_type", "xlm-roberta"}, {"output_past", true}, {"vocab_size", 250002}});
const json kDistilBert = {{"activation", "gelu"},
                          {"architectures", {"DistilBertForMaskedLM"}},
                          {"attention_dropout", 0.1},
                          {"dim", 768},
                          {"dropout", 0.1},
                          {"hidden_dim", 3072},
                          {"initializer_range", 0.02},
                          {"max_position_embeddings", 512},
                          {"model_type", "distilbert"},
                          {"n_heads", 12},
                          {"n_layers", 6},
                          {"pad_token_id", 0},
                          {"qa_dropout", 0.1},
                          {"seq_classif_dropout", 0.2},
                          {"sinusoidal_pos_embds", false},
                          {"tie_weights_", true},
                          {"vocab_size", 30522}};
const json kOpusMt = {{"activation_function", "swish"},
                      {"add_bias_logits", false},
                      {"add_final_layer_norm", false},
                      {"architectures", {"MarianMTModel"}},
                      {"bad_words_ids", {{58100}}},
                      {"bos_token_id", 0},
                      {"d_model", 512},
                      {"decoder_attention_heads", 8},
                      {"decoder_ffn_dim", 2048},
                      {"decoder_layers", 6},
                      {"decoder_start_token_id", 58100},
                      {"encoder_attention_heads", 8},
                      {"encoder_ffn_dim", 2048},
                      {"encoder_layers", 6},
                      {"eos_token_id", 0},
                      {"is_encoder_decoder", true},
                      {"max_position_embeddings", 512},
                      {"model_type", "marian"},
                      {"normalize_before", false},
                      {"normalize_embedding", false},
                      {"num_beams", 6},
                      {"pad_token_id", 58100},
                      {"scale_embedding", true},
                      {"static_position_embeddings", true},
                      {"vocab_size", 58101}};
const json kBart = with(kOpusMt, {{"activation_function", "gelu"},
                                  {"architectures", {"BartModel"}},
                                  {"d_model", 768},
                                  {"decoder_attention_heads", 12},
                                  {"decoder_ffn_dim", 3072},
                                  {"decoder_start_token_id", 2},
                                  {"encoder_attention_heads", 12},
                                  {"encoder_ffn_dim", 3072},
                                  {"eos_token_id", 2},
                                  {"forced_eos_token_id", 2},
                                  {"max_position_embeddings", 1024},
                                  {"model_type", "bart"},
                                  {"normalize_embedding", true},
                                  {"pad_token_id", 1},
                                  {"scale_embedding", false},
                                  {"static_position_embeddings", false},
                                  {"vocab_size", 50265}});
const json kBartLarge = with(kBart, {{"d_model", 1024},
                                     {"decoder_attention_heads", 16},
                                     {"decoder_ffn_dim", 4096},
                                     {"decoder_layers", 12},
                                     {"encoder_attention_heads", 16},
                                     {"encoder_ffn_dim", 4096},
                                     {"encoder_layers", 12}});
const json kMBart = with(kBartLarge, {{"add_final_layer_norm", true},
                                      {"model_type", "mbart"},
                                      {"normalize_before", true},
                                      {"scale_embedding", true},
                                      {"vocab_size", 250054}});

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
    const std::string message = error.what();
    return message.substr(message.rfind("//") + 2);
  }
}

struct Known {
  const char* name;
  json config;
  std::string expected;
};

TEST(ModelConfig, WellKnownModelsThatOpen) {
  const std::vector<Known> models = {
      {"bert-base-uncased", kBert, "Bert: 12 layers of 768, 512 positions, 2 types, gelu"},
      {"bert-base-multilingual-cased",
       with(kBert, {{"directionality", "bidi"}, {"pooler_fc_size", 768}, {"pooler_type", "first_token_transform"}}),
       "Bert: 12 layers of 768, 512 positions, 2 types, gelu"},
      {"bert-large-uncased",
       with(kBert, {{"hidden_size", 1024}, {"num_attention_heads", 16}, {"num_hidden_layers", 24}}),
       "Bert: 24 layers of 1024, 512 positions, 2 types, gelu"},
      {"all-MiniLM-L6-v2",
       with(kBert, {{"gradient_checkpointing", false},
                    {"hidden_size", 384},
                    {"num_hidden_layers", 6},
                    {"position_embedding_type", "absolute"},
                    {"use_cache", true}}),
       "Bert: 6 layers of 384, 512 positions, 2 types, gelu"},
      {"bge-small-en-v1.5",
       with(kBert, {{"classifier_dropout", nullptr}, {"hidden_size", 384}, {"id2label", {{"0", "L"}}}}),
       "Bert: 12 layers of 384, 512 positions, 2 types, gelu"},
      {"a BERT with the tanh GELU", with(kBert, {{"hidden_act", "gelu_pytorch_tanh"}}),
       "Bert: 12 layers of 768, 512 positions, 2 types, gelu_new"},
      {"roberta-base", kRoberta, "Bert: 12 layers of 768, 512 positions, 1 types, gelu"},
      {"distilroberta-base", with(kRoberta, {{"num_hidden_layers", 6}}),
       "Bert: 6 layers of 768, 512 positions, 1 types, gelu"},
      {"codebert-base", with(kRoberta, {{"output_past", true}}),
       "Bert: 12 layers of 768, 512 positions, 1 types, gelu"},
      {"xlm-roberta-base", kXlmRoberta, "Bert: 12 layers of 768, 512 positions, 1 types, gelu"},
      {"bge-m3",
       with(kXlmRoberta, {{"hidden_size", 1024},
                          {"max_position_embeddings", 8194},
                          {"num_attention_heads", 16},
                          {"num_hidden_layers", 24}}),
       "Bert: 24 layers of 1024, 8192 positions, 1 types, gelu"},
      {"distilbert-base-uncased", kDistilBert, "Bert: 6 layers of 768, 512 positions, 0 types, gelu"},
      {"distilbert-base-multilingual-cased", with(kDistilBert, {{"output_past", true}, {"vocab_size", 119547}}),
       "Bert: 6 layers of 768, 512 positions, 0 types, gelu"},
      {"all-mpnet-base-v2", kMpnet, "Bert: 12 layers of 768, 512 positions, 0 types, gelu"},
      {"opus-mt-en-de", kOpusMt, "Marian: 6 and 6 layers of 512, 512 positions, swish, post norms"},
      {"opus-mt-tc-big-en-fi",
       with(kOpusMt, {{"activation_function", "relu"},
                      {"d_model", 1024},
                      {"decoder_vocab_size", 58101},
                      {"max_position_embeddings", 1024},
                      {"share_encoder_decoder_embeddings", true}}),
       "Marian: 6 and 6 layers of 1024, 1024 positions, relu, post norms"},
      {"bart-base", kBart, "Marian: 6 and 6 layers of 768, 1024 positions, gelu, post norms"},
      {"bart-large-cnn", with(kBartLarge, {{"force_bos_token_to_be_generated", true}, {"vocab_size", 50264}}),
       "Marian: 12 and 12 layers of 1024, 1024 positions, gelu, post norms"},
      {"distilbart-cnn-12-6", with(kBartLarge, {{"decoder_layers", 6}, {"extra_pos_embeddings", 2}}),
       "Marian: 12 and 6 layers of 1024, 1024 positions, gelu, post norms"},
      {"mbart-large-50", kMBart, "Marian: 12 and 12 layers of 1024, 1024 positions, gelu, pre norms"}};
  for (const Known& model : models) EXPECT_EQ(opened(model.config), model.expected) << model.name;
}

TEST(ModelConfig, WellKnownModelsThatAreRefused) {
  const std::string no_encoder =
      "; the supported encoders are \"bert\", \"roberta\", \"xlm-roberta\", \"distilbert\" and \"mpnet\"";
  const std::string no_pair = "; the supported encoder-decoders are \"marian\", \"bart\", \"mbart\" and \"qkv\"";
  const auto of_type = [](const char* type) { return json{{"model_type", type}}; };
  const auto pair_of_type = [](const char* type) { return json{{"model_type", type}, {"is_encoder_decoder", true}}; };
  const std::vector<Known> models = {
      {"gpt2", of_type("gpt2"), "model_type is \"gpt2\"" + no_encoder},
      {"Llama-3.2-1B", of_type("llama"), "model_type is \"llama\"" + no_encoder},
      {"electra-small-discriminator", of_type("electra"), "model_type is \"electra\"" + no_encoder},
      {"albert-base-v2", of_type("albert"), "model_type is \"albert\"" + no_encoder},
      {"deberta-v3-base", of_type("deberta-v2"), "model_type is \"deberta-v2\"" + no_encoder},
      {"ModernBERT-base", of_type("modernbert"), "model_type is \"modernbert\"" + no_encoder},
      {"t5-small", pair_of_type("t5"), "model_type is \"t5\"" + no_pair},
      {"nllb-200-distilled-600M", pair_of_type("m2m_100"), "model_type is \"m2m_100\"" + no_pair},
      {"pegasus-xsum", pair_of_type("pegasus"), "model_type is \"pegasus\"" + no_pair},
      {"blenderbot-400M-distill", pair_of_type("blenderbot"), "model_type is \"blenderbot\"" + no_pair},
      {"whisper-tiny", pair_of_type("whisper"), "model_type is \"whisper\"" + no_pair},
      {"bert-base-uncased-embedding-relative-key", with(kBert, {{"position_embedding_type", "relative_key"}}),
       "position_embedding_type must be \"absolute\" for this model"},
      {"a BERT whose heads were pruned", with(kBert, {{"pruned_heads", {{"1", {0, 2}}}}}),
       "pruned_heads must be {} for this model"},
      {"a RoBERTa that generates", with(kRoberta, {{"is_decoder", true}}), "is_decoder must be false for this model"},
      {"a DistilBERT in 4 bits", with(kDistilBert, {{"quantization_config", {{"load_in_4bit", true}}}}),
       "quantization_config must be null for this model"},
      {"a DistilBERT with another GELU", with(kDistilBert, {{"activation", "quick_gelu"}}),
       "activation must be \"relu\", \"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\", \"swish\" or \"silu\", is "
       "\"quick_gelu\""},
      {"an MPNet with more buckets", with(kMpnet, {{"relative_attention_num_buckets", 64}}),
       "relative_attention_num_buckets must be 32 for this model"},
      {"a BART with two tables", with(kBart, {{"share_encoder_decoder_embeddings", false}}),
       "share_encoder_decoder_embeddings must be true for this model"},
      {"a BART of pre-norm layers", with(kBart, {{"normalize_before", true}}),
       "normalize_before must be false for this model"},
      {"a Marian with learnt positions", with(kOpusMt, {{"static_position_embeddings", false}}),
       "static_position_embeddings must be true for this model"},
      {"an mBART whose output has a table of its own", with(kMBart, {{"tie_word_embeddings", false}}),
       "tie_word_embeddings must be true for this model"}};
  for (const Known& model : models) EXPECT_EQ(opened(model.config), "config.json: " + model.expected) << model.name;
}

// Keys of training and of heads, keys that no class knows, and null, which stands for the default.
TEST(ModelConfig, WhatDoesNotChangeTheComputationIsIgnored) {
  const json harmless = {{"hidden_dropout_prob", 0.5}, {"classifier_dropout", 0.3},      {"use_cache", false},
                         {"is_decoder", nullptr},      {"pruned_heads", json::object()}, {"problem_type", "regression"},
                         {"my_own_key", {1, 2}}};
  EXPECT_EQ(opened(with(kBert, harmless)), opened(kBert));
}

TEST(ModelConfig, ListsAreQuoted) {
  EXPECT_EQ(quoted_list({"a"}, "or"), "\"a\"");
  EXPECT_EQ(quoted_list({"a", "b"}, "or"), "\"a\" or \"b\"");
  EXPECT_EQ(quoted_list({"a", "b", "c"}, "and"), "\"a\", \"b\" and \"c\"");
}

}  // namespace
}  // namespace qkv
