/// \file
/// Continues prompts with a decoder-only model: tokenizer, model and search. Reads Hugging Face folders of language
/// models.
///
///     Generator generator = Generator::load("smollm2");
///     std::cout << generator.generate("The cat sat", {.max_new_tokens = 20}).text;
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/api.h"
#include "qkv/decode/generate.h"
#include "qkv/models/language_model.h"
#include "qkv/text/tokenizer.h"

namespace qkv {

inline namespace pipelines {
struct ChatTemplate;
}

/// How a text prompt is tokenized: `text` with the special tokens that the tokenizer adds, `raw` without, and `chat` as
/// a user's message formatted by the folder's chat template (ChatML, Llama 2 or 3, Mistral or Gemma), without.
enum class PromptForm { text, raw, chat };

/// Unset options follow the folder's generation_config.json.
struct GeneratorOptions {
  PromptForm form = PromptForm::text;
  /// Maximum tokens of a text, at most the model's positions: new tokens, or prompt and new tokens. If neither is given
  /// here or by the folder: 256 new ones.
  std::optional<std::int64_t> max_new_tokens{}, max_length{};
  std::optional<std::int64_t> beams{};
  std::optional<double> length_penalty{}, repetition_penalty{};
  std::optional<Sampling> sampling{};  ///< draws tokens instead of searching
  bool greedy = false;                 ///< does not sample, regardless of the folder
  /// Added to the folder's: a text ends before the first of these strings. Beams must be 1.
  std::vector<std::string> stop_strings{};
  std::int64_t nbest = 1;  ///< texts for each prompt, at most `beams`
  /// Random stream of the first prompt of a call; the i-th one draws i lines later.
  RandomStream stream{};
  std::int64_t chunk = 0;        ///< as in PromptOptions
  Drafts drafts = Drafts::none;  ///< none while weights of heads are requested
  /// A file with a text and the model's state after it, for one prompt and 1 beam: a prompt is appended to the text; an
  /// empty one continues it with the bits of an uninterrupted text. The file is replaced when the call succeeds. Empty:
  /// none.
  std::string session{};
  /// Type of cached keys and values: f32, or in half the memory bf16 or f16, which round them and the queries.
  Dtype cache_type = Dtype::f32;
  /// Called on the calling thread with each new piece of a prompt's text; the pieces add up to the text. Beams must be
  /// 1.
  std::function<void(std::size_t prompt, std::string_view text)> on_text{};
  std::vector<LayerHead> heads{};  ///< to keep the weights of; beams must be 1
  int threads = 0;                 ///< 0: threads()
  std::stop_token stop{};
};

enum class EndOfText { end_token, stop_string, length };

struct GeneratedText {
  std::string text{};               ///< after the prompt, without the end token
  std::vector<std::int32_t> ids{};  ///< all new tokens, including the end token and stop strings
  /// As in generate.h; for a resumed session, of everything generated after the last prompt.
  double log_probability = 0, score = 0;
  EndOfText end = EndOfText::length;
  /// For each of the heads [new, prompt + new - 1], f32: row i has the weights of the pass that generated token i, 0
  /// after its own position.
  std::vector<Tensor> weights{};
};

struct TextScoreOptions {
  int threads = 0;  ///< 0: threads()
  std::stop_token stop{};
};

struct TokenScore {
  double log_probability = 0;  ///< natural logarithm, given the tokens before it
  std::int64_t rank = 1;       ///< among all tokens, 1 for the most probable; of equal ones the lower id comes first
};

struct ScoredText {
  std::vector<std::int32_t> ids{};
  std::vector<TokenScore> tokens{};  ///< of all ids but the first, which has no context
  double log_probability = 0;        ///< the sum over tokens
  std::int64_t bytes = 0;            ///< of their text
  double bits_per_byte = 0;          ///< -log_probability / ln(2) / bytes
  double perplexity = 0;             ///< exp(-log_probability / tokens)
};

/// Immutable after construction: any number of threads may call the others.
class QKV_API Generator {
 public:
  /// `folder` holds what LanguageModel::load reads, generation_config.json (else config.json says how to generate), and
  /// tokenizer.json, which prompts that are texts need; or it is a GGUF file, which holds them all. FormatError, naming
  /// the file and the field, for malformed files and unsupported settings of tokenizing or generating. `storage` as in
  /// weights.h.
  static Generator load(const std::string& folder, WeightStorage storage = WeightStorage::full);

  /// The texts for each prompt, best first: the same bits for any other prompts, threads and chunks of prompts.
  /// std::invalid_argument, naming the prompt by its number from 1, for one without tokens or with so many that no
  /// position is left to write, and for options that do not fit together; FormatError if the folder had no
  /// tokenizer.json, and for a session that is damaged or of another model, arithmetic or storage; IoError if it cannot
  /// be written.
  std::vector<std::vector<GeneratedText>> generate(std::span<const std::string> prompts,
                                                   const GeneratorOptions& options = {}) const;
  GeneratedText generate(const std::string& prompt, const GeneratorOptions& options = {}) const;
  /// A prompt's ids. FormatError if the folder had no tokenizer.json, or for `chat` no chat template of a known kind.
  std::vector<std::int32_t> prompt_ids(const std::string& prompt, PromptForm form = PromptForm::text) const;
  /// As generate() uses it with these options: a prompt that continues a session is raw, or the next message of its
  /// chat. FormatError for a chat if the session's text does not match the template, or the template does not say how
  /// an answer ends.
  std::vector<std::int32_t> prompt_ids(const std::string& prompt, const GeneratorOptions& options) const;
  /// Why a prompt of so many tokens cannot be continued; empty: it can.
  std::string refusal_of_length(std::int64_t tokens) const;
  /// Continues ids, taken as they are. Without a tokenizer.json texts are empty, and stop strings are refused.
  std::vector<std::vector<GeneratedText>> generate_ids(LanguageModel::Prompts prompts,
                                                       const GeneratorOptions& options = {}) const;
  /// The same of prompts that come while others are written, and of which each is written with the bits that it has
  /// alone: `next` and `ended` as in decode/generate.h. std::invalid_argument also for a session.
  void generate_running(const std::function<std::optional<std::vector<std::int32_t>>(bool idle)>& next,
                        const std::function<void(std::size_t prompt, std::vector<GeneratedText> texts)>& ended,
                        const GeneratorOptions& options = {}) const;

  /// How probable the model finds each token of these texts, tokenized as prompts are. A text longer than the model's
  /// positions is read in windows that begin half of them apart, and a token is scored in the first that contains it,
  /// as in transformers' guide to perplexity with that stride. std::invalid_argument, naming the text by its number
  /// from 1, for one with fewer than two tokens, or without a byte behind the first one; and for logits that are not
  /// finite. FormatError if the folder had no tokenizer.json.
  std::vector<ScoredText> score(std::span<const std::string> texts, const TextScoreOptions& options = {}) const;

  /// How the folder's model samples, if it does.
  const std::optional<Sampling>& sampling() const { return defaults_.sampling; }
  std::int64_t beams(const GeneratorOptions& options) const { return options.beams.value_or(defaults_.beams); }
  const LanguageModel& model() const { return model_; }
  /// The folder's settings besides the model, tokenizers as digests: for fingerprint().
  std::string settings() const;
  const Tokenizer& tokenizer() const;  ///< FormatError if the folder had none

 private:
  struct Lengths {
    std::optional<std::int64_t> max_length, max_new_tokens;
    std::int64_t min_length = 0, min_new_tokens = 0;
  };
  Generator(std::string folder, LanguageModel model, std::optional<Tokenizer> tokenizer, GenerateOptions defaults,
            Lengths lengths, std::vector<std::string> stop_strings);

  class TextWriter;
  class Writing;
  struct Session;

  GenerateOptions search_options(const GeneratorOptions& options) const;
  /// How many tokens may follow a prompt of so many.
  std::int64_t room(std::int64_t prompt, const GeneratorOptions& options) const;

  std::string folder_;
  LanguageModel model_;
  std::optional<Tokenizer> tokenizer_;
  std::shared_ptr<const ChatTemplate> chat_;
  GenerateOptions defaults_;
  Lengths lengths_;
  std::vector<std::string> stop_strings_;
};

}  // namespace qkv
