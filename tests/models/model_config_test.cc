// The configs of well-known models, by what matters in them: which open, as what, and why the others do not.
#include "models/model_config.h"

#include "models/models_for_test.h"
#include "qkv/models/language_model.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/transformer_encoder_decoder.h"

namespace qkv::test {
namespace {

using nlohmann::json;

// Of base models; what has a "base" has its keys, too.
const json kConfigs = json::parse(R"({
"bert": {"architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu",
  "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
  "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert", "num_attention_heads": 12,
  "num_hidden_layers": 12, "pad_token_id": 0, "type_vocab_size": 2, "vocab_size": 30522},
"roberta": {"base": "bert", "architectures": ["RobertaForMaskedLM"], "bos_token_id": 0, "eos_token_id": 2,
  "layer_norm_eps": 1e-5, "max_position_embeddings": 514, "model_type": "roberta", "pad_token_id": 1,
  "type_vocab_size": 1, "vocab_size": 50265},
"xlm-roberta": {"base": "roberta", "model_type": "xlm-roberta", "output_past": true, "vocab_size": 250002},
"mpnet": {"base": "bert", "_name_or_path": "microsoft/mpnet-base", "architectures": ["MPNetForMaskedLM"],
  "layer_norm_eps": 1e-5, "max_position_embeddings": 514, "model_type": "mpnet", "pad_token_id": 1,
  "relative_attention_num_buckets": 32, "transformers_version": "4.8.2", "type_vocab_size": null, "vocab_size": 30527},
"albert": {"base": "bert", "architectures": ["AlbertForMaskedLM"], "down_scale_factor": 1, "embedding_size": 128,
  "gap_size": 0, "hidden_act": "gelu_new", "inner_group_num": 1, "model_type": "albert", "net_structure_type": 0,
  "num_hidden_groups": 1, "num_memory_blocks": 0, "vocab_size": 30000},
"modernbert": {"architectures": ["ModernBertForMaskedLM"], "attention_bias": false, "classifier_activation": "gelu",
  "classifier_bias": false, "classifier_pooling": "mean", "decoder_bias": true, "global_attn_every_n_layers": 3,
  "global_rope_theta": 160000.0, "hidden_activation": "gelu", "hidden_size": 768, "intermediate_size": 1152,
  "layer_norm_eps": 1e-05, "local_attention": 128, "local_rope_theta": 10000.0, "max_position_embeddings": 8192,
  "mlp_bias": false, "model_type": "modernbert", "norm_bias": false, "norm_eps": 1e-05, "num_attention_heads": 12,
  "num_hidden_layers": 22, "pad_token_id": 50283, "position_embedding_type": "absolute", "tie_word_embeddings": true,
  "vocab_size": 50368},
"distilbert": {"activation": "gelu", "architectures": ["DistilBertForMaskedLM"], "attention_dropout": 0.1, "dim": 768,
  "dropout": 0.1, "hidden_dim": 3072, "initializer_range": 0.02, "max_position_embeddings": 512,
  "model_type": "distilbert", "n_heads": 12, "n_layers": 6, "pad_token_id": 0, "qa_dropout": 0.1,
  "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": false, "tie_weights_": true, "vocab_size": 30522},
"opus-mt": {"activation_function": "swish", "add_bias_logits": false, "add_final_layer_norm": false,
  "architectures": ["MarianMTModel"], "bad_words_ids": [[58100]], "bos_token_id": 0, "d_model": 512,
  "decoder_attention_heads": 8, "decoder_ffn_dim": 2048, "decoder_layers": 6, "decoder_start_token_id": 58100,
  "encoder_attention_heads": 8, "encoder_ffn_dim": 2048, "encoder_layers": 6, "eos_token_id": 0,
  "is_encoder_decoder": true, "max_position_embeddings": 512, "model_type": "marian", "normalize_before": false,
  "normalize_embedding": false, "num_beams": 6, "pad_token_id": 58100, "scale_embedding": true,
  "static_position_embeddings": true, "vocab_size": 58101},
"bart": {"base": "opus-mt", "activation_function": "gelu", "architectures": ["BartModel"], "d_model": 768,
  "decoder_attention_heads": 12, "decoder_ffn_dim": 3072, "decoder_start_token_id": 2, "encoder_attention_heads": 12,
  "encoder_ffn_dim": 3072, "eos_token_id": 2, "forced_eos_token_id": 2, "max_position_embeddings": 1024,
  "model_type": "bart", "normalize_embedding": true, "pad_token_id": 1, "scale_embedding": false,
  "static_position_embeddings": false, "vocab_size": 50265},
"bart-large": {"base": "bart", "d_model": 1024, "decoder_attention_heads": 16, "decoder_ffn_dim": 4096,
  "decoder_layers": 12, "encoder_attention_heads": 16, "encoder_ffn_dim": 4096, "encoder_layers": 12},
"mbart": {"base": "bart-large", "add_final_layer_norm": true, "model_type": "mbart", "normalize_before": true,
  "scale_embedding": true, "vocab_size": 250054},
"gpt2": {"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "bos_token_id": 50256,
  "eos_token_id": 50256, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
  "n_layer": 12, "n_positions": 1024, "summary_type": "cls_index", "task_specific_params": {"text-generation":
  {"do_sample": true, "max_length": 50}}, "vocab_size": 50257},
"smollm2": {"architectures": ["LlamaForCausalLM"], "attention_bias": false, "bos_token_id": 0, "eos_token_id": 0,
  "hidden_act": "silu", "hidden_size": 576, "intermediate_size": 1536, "is_llama_config": true,
  "max_position_embeddings": 8192, "model_type": "llama", "num_attention_heads": 9, "num_hidden_layers": 30,
  "num_key_value_heads": 3, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_interleaved": false, "rope_scaling": null,
  "rope_theta": 100000, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "vocab_size": 49152},
"pythia": {"architectures": ["GPTNeoXForCausalLM"], "hidden_act": "gelu", "hidden_size": 768, "intermediate_size": 3072,
  "layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "model_type": "gpt_neox", "num_attention_heads": 12,
  "num_hidden_layers": 12, "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": false,
  "use_parallel_residual": true, "vocab_size": 50304},
"gemma-2": {"attention_bias": false, "attn_logit_softcapping": 50.0, "cache_implementation": "hybrid",
  "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "hidden_activation":
  "gelu_pytorch_tanh", "hidden_size": 2304, "intermediate_size": 9216, "max_position_embeddings": 8192, "model_type":
  "gemma2", "num_attention_heads": 8, "num_hidden_layers": 26, "num_key_value_heads": 4, "query_pre_attn_scalar": 256,
  "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096, "vocab_size": 256000}})");

json config_of(const std::string& name) {
  const json& own = kConfigs.at(name);
  json config = own.contains("base") ? config_of(own["base"]) : own;
  config.update(own);
  config.erase("base");
  return config;
}

// Sizes, how the last layer rotates, and the windows of the layers.
std::string language_model(const LanguageModelConfig& c) {
  const TransformerLayerConfig& last = c.layers.back();
  std::string text = fmt::format("LanguageModel: {} layers of {}, {} heads on {}, {} positions", c.layers.size(),
                                 c.model_dim, last.heads, last.kv_heads == 0 ? last.heads : last.kv_heads, c.positions);
  if (last.rotary) text += fmt::format(", rotary {} of {}", last.rotary->base, last.head_dim);
  if (last.rotary && last.rotary->dims > 0) text += fmt::format(", {} of them", last.rotary->dims);
  if (last.rotary && last.rotary->scaling.kind != RotaryScaling::Kind::none) {
    text += fmt::format(", scaled by {} from {}", last.rotary->scaling.factor, last.rotary->scaling.trained);
  }
  const auto windows = std::ranges::count_if(c.layers, [](const auto& layer) { return layer.window.has_value(); });
  return text + (windows > 0 ? fmt::format(", {} windows", windows) : "") + (c.tied ? ", tied" : "");
}

// What opens, or the message behind the name of the file.
std::string opened(const json& config) {
  const TemporaryFolder folder;
  folder.put("config.json", config.dump());
  try {
    if (TransformerEncoderDecoder::is_in(folder / "")) {
      const TransformerEncoderDecoderConfig c = TransformerEncoderDecoder::read_config(folder / "");
      return fmt::format("TransformerEncoderDecoder: {} and {} layers of {}, {} positions, {}, {} norms",
                         c.encoder_layers, c.decoder_layers, c.model_dim, c.positions, name_of(c.activation),
                         c.norm_order == NormOrder::pre ? "pre" : "post");
    }
    if (LanguageModel::is_in(folder / "")) return language_model(LanguageModel::read_config(folder / ""));
    const TextEncoderConfig c = TextEncoder::read_config(folder / "");
    return fmt::format("TextEncoder: {} layers of {}, {} positions, {} types, {}", c.layers, c.model_dim, c.positions,
                       c.types, name_of(c.activation));
  } catch (const FormatError& error) {
    const std::string message = error.what(), file = "//config.json: ";
    return message.substr(message.rfind(file) + file.size());
  }
}

// Each with its base and what it has besides. The last ones have keys of training and of heads, keys that no class
// knows, and null, which stands for the default; or are refused.
TEST(ModelConfig, WellKnownModels) {
  for (const JsonEdit& model : json_edits(R"(
bert bert-base-uncased = {} => TextEncoder: 12 layers of 768, 512 positions, 2 types, gelu
bert bert-base-multilingual-cased = {"directionality": "bidi", "pooler_fc_size": 768, "pooler_type":
    "first_token_transform"} => TextEncoder: 12 layers of 768, 512 positions, 2 types, gelu
bert all-MiniLM-L6-v2 = {"gradient_checkpointing": false, "hidden_size": 384, "num_hidden_layers": 6,
    "position_embedding_type": "absolute", "use_cache": true} => TextEncoder: 6 layers of 384, 512 positions, 2 types, gelu
bert bge-small-en-v1.5 = {"classifier_dropout": null, "hidden_size": 384, "id2label": {"0": "L"}}
    => TextEncoder: 12 layers of 384, 512 positions, 2 types, gelu
bert tanh-GELU = {"hidden_act": "gelu_pytorch_tanh"} => TextEncoder: 12 layers of 768, 512 positions, 2 types, gelu_new
roberta roberta-base = {} => TextEncoder: 12 layers of 768, 512 positions, 1 types, gelu
roberta codebert-base = {"output_past": true} => TextEncoder: 12 layers of 768, 512 positions, 1 types, gelu
xlm-roberta xlm-roberta-base = {} => TextEncoder: 12 layers of 768, 512 positions, 1 types, gelu
xlm-roberta bge-m3 = {"hidden_size": 1024, "max_position_embeddings": 8194, "num_attention_heads": 16,
    "num_hidden_layers": 24} => TextEncoder: 24 layers of 1024, 8192 positions, 1 types, gelu
distilbert distilbert-base-uncased = {} => TextEncoder: 6 layers of 768, 512 positions, 0 types, gelu
distilbert distilbert-base-multilingual-cased = {"output_past": true, "vocab_size": 119547}
    => TextEncoder: 6 layers of 768, 512 positions, 0 types, gelu
mpnet all-mpnet-base-v2 = {} => TextEncoder: 12 layers of 768, 512 positions, 0 types, gelu
albert albert-base-v2 = {} => TextEncoder: 12 layers of 768, 512 positions, 2 types, gelu_new
modernbert ModernBERT-base = {} => TextEncoder: 22 layers of 768, 8192 positions, 0 types, gelu
opus-mt opus-mt-en-de = {} => TransformerEncoderDecoder: 6 and 6 layers of 512, 512 positions, swish, post norms
opus-mt opus-mt-tc-big-en-fi = {"activation_function": "relu", "d_model": 1024, "decoder_vocab_size": 58101,
    "max_position_embeddings": 1024, "share_encoder_decoder_embeddings": true}
    => TransformerEncoderDecoder: 6 and 6 layers of 1024, 1024 positions, relu, post norms
bart bart-base = {} => TransformerEncoderDecoder: 6 and 6 layers of 768, 1024 positions, gelu, post norms
bart-large bart-large-cnn = {"force_bos_token_to_be_generated": true, "vocab_size": 50264}
    => TransformerEncoderDecoder: 12 and 12 layers of 1024, 1024 positions, gelu, post norms
bart-large distilbart-cnn-12-6 = {"decoder_layers": 6, "extra_pos_embeddings": 2}
    => TransformerEncoderDecoder: 12 and 6 layers of 1024, 1024 positions, gelu, post norms
mbart mbart-large-50 = {} => TransformerEncoderDecoder: 12 and 12 layers of 1024, 1024 positions, gelu, pre norms
gpt2 gpt2 = {} => LanguageModel: 12 layers of 768, 12 heads on 12, 1024 positions, tied
gpt2 distilgpt2 = {"n_layer": 6, "_num_labels": 1} => LanguageModel: 6 layers of 768, 12 heads on 12, 1024 positions, tied
smollm2 SmolLM2-135M = {} => LanguageModel: 30 layers of 576, 9 heads on 3, 8192 positions, rotary 100000 of 64, tied
smollm2 TinyLlama-1.1B = {"hidden_size": 2048, "intermediate_size": 5632, "max_position_embeddings": 2048,
    "num_attention_heads": 32, "num_hidden_layers": 22, "num_key_value_heads": 4, "rope_theta": 10000.0,
    "tie_word_embeddings": false} => LanguageModel: 22 layers of 2048, 32 heads on 4, 2048 positions, rotary 10000 of 64
smollm2 Llama-3.2-1B = {"head_dim": 64, "hidden_size": 2048, "num_attention_heads": 32, "num_hidden_layers": 16,
    "max_position_embeddings": 131072, "num_key_value_heads": 8, "rope_theta": 500000.0, "rope_scaling": {"factor": 32.0,
    "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}}
    => LanguageModel: 16 layers of 2048, 32 heads on 8, 131072 positions, rotary 500000 of 64, scaled by 32 from 8192, tied
smollm2 Yarn = {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048, "finetuned":
    true}} => LanguageModel: 30 layers of 576, 9 heads on 3, 8192 positions, rotary 100000 of 64, scaled by 4 from 2048,
    tied
smollm2 Yarn-from-the-root = {"original_max_position_embeddings": 1024, "rope_scaling": {"type": "yarn", "factor": 8.0,
    "original_max_position_embeddings": 2048}, "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5.0}}
    => LanguageModel: 30 layers of 576, 9 heads on 3, 8192 positions, rotary 100000 of 64, scaled by 8 from 1024, tied
smollm2 Phi-3-mini-128k = {"model_type": "phi3", "rope_scaling": {"type": "yarn", "factor": 4.0}}
    => rope_scaling must not scale positions: phi3 knows only "longrope", which is not supported
smollm2 Phi-3-empty-scaling = {"model_type": "phi3", "rope_scaling": {}, "rope_parameters": {"rope_type": "linear",
    "factor": 4.0}}
    => rope_parameters must not scale positions: phi3 knows only "longrope", which is not supported
smollm2 Mistral-7B-v0.1 = {"model_type": "mistral", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers":
    32, "num_key_value_heads": 8, "sliding_window": 4096, "rope_theta": 10000.0, "tie_word_embeddings": false}
    => LanguageModel: 32 layers of 4096, 32 heads on 8, 8192 positions, rotary 10000 of 128, 32 windows
smollm2 Mistral-7B-v0.3 = {"model_type": "mistral", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers":
    32, "num_key_value_heads": 8, "sliding_window": null, "rope_theta": 1000000.0, "tie_word_embeddings": false}
    => LanguageModel: 32 layers of 4096, 32 heads on 8, 8192 positions, rotary 1000000 of 128
smollm2 Qwen2.5-0.5B = {"model_type": "qwen2", "hidden_size": 896, "num_attention_heads": 14, "num_hidden_layers": 24,
    "num_key_value_heads": 2, "max_window_layers": 24, "sliding_window": 32768, "use_sliding_window": false, "use_mrope":
    false} => LanguageModel: 24 layers of 896, 14 heads on 2, 8192 positions, rotary 100000 of 64, tied
smollm2 Qwen3-0.6B = {"model_type": "qwen3", "head_dim": 128, "hidden_size": 1024, "num_attention_heads": 16,
    "num_hidden_layers": 28, "num_key_value_heads": 8, "max_window_layers": 28, "sliding_window": null,
    "use_sliding_window": false} => LanguageModel: 28 layers of 1024, 16 heads on 8, 8192 positions, rotary 100000 of 128,
    tied
smollm2 Mixtral-8x7B = {"model_type": "mixtral", "num_local_experts": 8} => model_type is "mixtral"; the supported encoders
    are "bert", "roberta", "xlm-roberta", "distilbert", "mpnet", "modernbert" and "albert"
pythia pythia-160m = {} => LanguageModel: 12 layers of 768, 12 heads on 12, 2048 positions, rotary 10000 of 64, 16 of them
gemma-2 gemma-2-2b = {} => LanguageModel: 26 layers of 2304, 8 heads on 4, 8192 positions, rotary 10000 of 256, 13 windows,
    tied
gemma-2 gemma-3-270m = {"model_type": "gemma3_text", "attn_logit_softcapping": null, "final_logit_softcapping": null,
    "hidden_size": 640, "num_attention_heads": 4, "num_hidden_layers": 18, "num_key_value_heads": 1, "sliding_window": 512,
    "_sliding_window_pattern": 6, "rope_local_base_freq": 10000.0, "rope_theta": 1000000.0, "rope_scaling": null,
    "use_bidirectional_attention": false}
    => LanguageModel: 18 layers of 640, 4 heads on 1, 8192 positions, rotary 1000000 of 256, 15 windows, tied
gemma-2 gemma-3 = {"model_type": "gemma3_text", "rope_parameters": {"full_attention": {}, "sliding_attention": {}},
    "rope_scaling": {"rope_type": "linear", "factor": 8.0}} => rope_scaling must be null where there are rope_parameters
bert = {"hidden_dropout_prob": 0.5, "classifier_dropout": 0.3, "use_cache": false, "is_decoder": null, "pruned_heads":
    {}, "problem_type": "regression", "my_own_key": [1, 2]} => TextEncoder: 12 layers of 768, 512 positions, 2 types, gelu
distilbert = {"quantization_config": {"load_in_4bit": true}} => quantization_config must be null for this model
distilbert = {"activation": "quick_gelu"}
    => activation must be "relu", "gelu", "gelu_new", "gelu_pytorch_tanh", "swish" or "silu", is "quick_gelu"
mpnet = {"relative_attention_num_buckets": 64} => relative_attention_num_buckets must be 32 for this model
albert = {"num_hidden_groups": 2} => num_hidden_groups must be 1 for this model
modernbert = {"norm_bias": true} => norm_bias must be false for this model
modernbert = {"rope_scaling": {"rope_type": "linear"}} => rope_scaling must be null for this model
modernbert = {"local_attention": 0} => local_attention is 0, must be 1 to 1073741824
modernbert = {"layer_types": ["full_attention"]} => layer_types must have 22 elements, one for each
    layer
bart = {"share_encoder_decoder_embeddings": false} => share_encoder_decoder_embeddings must be true for this model
opus-mt = {"static_position_embeddings": false} => static_position_embeddings must be true for this model
mbart = {"tie_word_embeddings": false} => tie_word_embeddings must be true for this model
)")) {
    json config = config_of(model.place.substr(0, model.place.find(' ')));
    config.update(json::parse(model.value));
    EXPECT_EQ(opened(config), model.message) << model.place << " " << model.value;
  }
}

// As its file had it before version 5 of transformers: a window of 64 tokens to both sides, but in every third layer.
TEST(ModelConfig, LayersOfModernBertAlternate) {
  const TemporaryFolder folder;
  folder.put("config.json", config_of("modernbert").dump());
  const TextEncoderConfig config = TextEncoder::read_config(folder / "");
  ASSERT_EQ(config.each.size(), 22u);
  for (std::size_t i = 0; i < config.each.size(); ++i) {
    const TransformerLayerConfig& layer = config.each[i];
    EXPECT_EQ(layer.window.has_value(), i % 3 != 0);
    const AttentionWindow window = layer.window.value_or(AttentionWindow{64, 64});
    EXPECT_EQ(std::pair(window.left, window.right), std::pair(64l, 64l));
    EXPECT_EQ(layer.rotary->base, i % 3 == 0 ? 160000 : 10000);
    EXPECT_EQ(layer.attention_norm, i > 0);
  }
}

// The defaults of transformers' classes of configs; null is a value.
TEST(ModelConfig, MissingWindowsAndCapsAreThoseOfTransformers) {
  struct Read {
    std::int64_t window;  // of the first layer; 0: none
    double layer_cap, cap;
    bool operator==(const Read&) const = default;
  };
  const auto read = [](json config, const char* type, const json& others) {
    for (const char* key : {"sliding_window", "attn_logit_softcapping", "final_logit_softcapping"}) config.erase(key);
    config.update({{"model_type", type}});
    config.update(others);
    const TemporaryFolder folder;
    folder.put("config.json", config.dump());
    const LanguageModelConfig own = LanguageModel::read_config(folder / "");
    const TransformerLayerConfig& layer = own.layers.front();
    return Read{layer.window ? layer.window->left + 1 : 0, layer.soft_cap, own.soft_cap};
  };
  const json llama = config_of("smollm2"), gemma = config_of("gemma-2");
  EXPECT_EQ(read(llama, "mistral", json::object()), (Read{4096, 0, 0}));
  EXPECT_EQ(read(llama, "mistral", {{"sliding_window", nullptr}}), (Read{0, 0, 0}));
  EXPECT_EQ(read(llama, "phi3", json::object()), (Read{0, 0, 0}));
  EXPECT_EQ(read(llama, "qwen2", json::object()), (Read{0, 0, 0}));
  EXPECT_EQ(read(llama, "qwen3", {{"use_sliding_window", true}, {"max_window_layers", 0}}), (Read{4096, 0, 0}));
  EXPECT_EQ(read(gemma, "gemma2", json::object()), (Read{4096, 50, 30}));
  EXPECT_EQ(read(gemma, "gemma2", {{"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", nullptr}}),
            (Read{4096, 0, 0}));
  EXPECT_EQ(read(gemma, "gemma3_text", json::object()), (Read{4096, 0, 0}));
}

TEST(ModelConfig, OtherTypesAreRefused) {
  const std::string encoders = R"("bert", "roberta", "xlm-roberta", "distilbert", "mpnet", "modernbert" and "albert")";
  for (const std::string type : {"gpt_bigcode", "deepseek_v3", "electra", "deberta", "deberta-v2"}) {
    EXPECT_EQ(opened({{"model_type", type}, {"is_encoder_decoder", false}}),
              "model_type is \"" + type + "\"; the supported encoders are " + encoders);
  }
  const std::string pairs = R"("marian", "bart", "mbart" and "qkv")";
  for (const std::string type : {"t5", "m2m_100", "pegasus", "blenderbot", "whisper"}) {
    EXPECT_EQ(opened({{"model_type", type}, {"is_encoder_decoder", true}}),
              "model_type is \"" + type + "\"; the supported encoder-decoders are " + pairs);
  }
  EXPECT_EQ(opened(json::object()), "vocab_size is missing");  // as of an encoder
}

TEST(ModelConfig, ListsAreQuoted) {
  EXPECT_EQ(quoted_list({"a"}, "or"), "\"a\"");
  EXPECT_EQ(quoted_list({"a", "b", "c"}, "and"), "\"a\", \"b\" and \"c\"");
}

}  // namespace
}  // namespace qkv::test
