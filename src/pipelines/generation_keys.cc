// Lists the settings of a generation_config.json, and refuses those that are not supported.
#include "pipelines/generation_keys.h"

#include <fmt/format.h>

#include <string_view>

namespace qkv::inline pipelines {
namespace {

using enum KeyAnswer;

constexpr GenerationKey kKeys[] = {
    {"bad_words_ids", obeyed},
    {"decoder_start_token_id", obeyed},
    {"early_stopping", obeyed},
    {"eos_token_id", obeyed},
    {"forced_bos_token_id", obeyed},
    {"forced_eos_token_id", obeyed},
    {"length_penalty", obeyed},
    {"max_length", obeyed},
    {"max_new_tokens", obeyed},
    {"min_length", obeyed},
    {"min_new_tokens", obeyed},
    {"no_repeat_ngram_size", obeyed},
    {"num_beams", obeyed},
    {"renormalize_logits", obeyed},
    {"repetition_penalty", obeyed},
    {"unsure_below", obeyed},  // our own

    {"assistant_ensemble_weight", refused},
    {"begin_suppress_tokens", refused},
    {"constraints", refused},
    {"diversity_penalty", refused, "0"},
    {"do_sample", drawn, "false"},
    {"dola_layers", refused},
    {"encoder_no_repeat_ngram_size", refused, "0"},
    {"encoder_repetition_penalty", refused, "1"},
    {"exponential_decay_length_penalty", refused},
    {"force_words_ids", refused},
    {"guidance_scale", refused, "1"},
    {"max_time", refused},
    {"num_beam_groups", refused, "1"},
    {"penalty_alpha", refused, "0"},
    {"remove_invalid_values", refused, "false"},
    {"sequence_bias", refused},
    {"stop_strings", drawn},
    {"suppress_tokens", refused},
    {"token_healing", refused, "false"},
    {"watermarking_config", refused},

    // Sampling, which only do_sample turns on.
    {"epsilon_cutoff", harmless},
    {"eta_cutoff", harmless},
    {"min_p", sampled},
    {"temperature", sampled},
    {"top_h", harmless},
    {"top_k", sampled},
    {"top_p", sampled},
    {"typical_p", harmless},
    // Drafts that the model itself accepts or rejects: they save time.
    {"assistant_confidence_threshold", harmless},
    {"assistant_early_exit", harmless},
    {"assistant_lookbehind", harmless},
    {"is_assistant", harmless},
    {"max_matching_ngram_size", harmless},
    {"num_assistant_tokens", harmless},
    {"num_assistant_tokens_schedule", harmless},
    {"prompt_lookup_num_tokens", harmless},
    {"speculation_type", harmless},
    {"target_lookbehind", harmless},
    {"use_mtp", harmless},
    // Time and memory.
    {"cache_config", harmless},
    {"cache_implementation", harmless},
    {"compile_config", harmless},
    {"continuous_batching_config", harmless},
    {"disable_compile", harmless},
    {"low_memory", harmless},
    {"max_cache_len", harmless},
    {"prefill_chunk_size", harmless},
    {"use_cache", harmless},
    // Results of generate(); the number of hypotheses is the caller's choice here.
    {"num_return_sequences", harmless},
    {"output_attentions", harmless},
    {"output_hidden_states", harmless},
    {"output_logits", harmless},
    {"output_scores", harmless},
    {"return_dict_in_generate", harmless},
    // Padding follows the end, and decoder_start_token_id is what sequences begin with.
    {"bos_token_id", harmless},
    {"pad_token_id", harmless},
    // The file itself.
    {"_from_model_config", harmless},
    {"transformers_version", harmless},
};

}  // namespace

std::span<const GenerationKey> generation_keys() { return kKeys; }

void refuse_generation_keys(const io::JsonValue& config, GeneratingModel model) {
  for (const auto& [name, answer, off] : kKeys) {
    if (answer != refused && (answer != drawn || model == GeneratingModel::language)) continue;
    const auto value = config.find(name);
    if (!value || value->is(off)) continue;
    const bool null = off == std::string_view("null");
    value->refuse(fmt::format("is not supported; {}set it to {}", null ? "remove it or " : "", off));
  }
}

}  // namespace qkv::inline pipelines
