// Generator: tokenizes prompts, lets the model write behind them, some together, and detokenizes as it does.
#include "qkv/pipelines/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>

#include "core/refuse.h"
#include "io/files/atomic_file.h"
#include "io/files/descriptor.h"
#include "models/gguf_folder.h"
#include "pipelines/chat_template.h"
#include "pipelines/generator_session.h"
#include "pipelines/pipeline_folder.h"
#include "qkv/error.h"
#include "qkv/pipelines/fingerprint.h"
#include "qkv/stop.h"

namespace qkv {
namespace {

// Rows that are written together, prompts times beams; and how many tokens by default.
constexpr std::int64_t kGeneratedRows = 128, kNewTokens = 256;

// The rows of weights of one head, each a key longer than the one before: [rows, keys of the last one].
Tensor stacked(const std::vector<std::vector<float>>& rows) {
  Tensor all = Tensor::zeros({std::ssize(rows), std::ssize(rows.back())});
  float* to = all.data<float>();
  for (const std::vector<float>& row : rows) {
    std::ranges::copy(row, to);
    to += all.size(1);
  }
  return all;
}

}  // namespace

// The text behind a prompt, token by token. What may be the beginning of a stop string is held back.
class Generator::TextWriter {
 public:
  TextWriter(const std::optional<Tokenizer>& tokenizer, std::span<const std::int32_t> prompt,
             std::vector<std::string> stop_strings)
      : tokenizer_(tokenizer), stop_strings_(std::move(stop_strings)) {
    if (!tokenizer) return;
    stream_.emplace(*tokenizer);
    // The text of a token may depend on those before it: whether it begins a text, above all.
    constexpr std::size_t kSeen = 16;
    for (const std::int32_t id : prompt.last(std::min(prompt.size(), kSeen))) detokenize(id);
  }

  // The new piece of the text.
  std::string put(std::int32_t id) { return stream_ && !is_stopped_ ? pass(detokenize(id)) : ""; }
  std::string finish() {
    if (!stream_ || is_stopped_) return "";
    std::string rest = pass(stream_->finish());
    if (is_stopped_) return rest;
    rest += held_;
    text_ += held_;
    held_.clear();
    return rest;
  }
  // Whether a stop string has come.
  bool is_stopped() const { return is_stopped_; }
  std::string take() { return std::move(text_); }

 private:
  // Ids without a token are rows of the model that nothing was trained for; they have no text, as in transformers.
  std::string detokenize(std::int32_t id) { return tokenizer_->contains(id) ? stream_->put(id) : ""; }

  std::string pass(const std::string& piece) {
    held_ += piece;
    std::size_t end = std::string::npos;
    for (const std::string& stop : stop_strings_) end = std::min(end, held_.find(stop));
    is_stopped_ = end != std::string::npos;
    std::string given = held_.substr(0, is_stopped_ ? end : held_.size() - held_back());
    held_.erase(0, given.size());
    text_ += given;
    return given;
  }

  // How many of the last bytes may begin a stop string.
  std::size_t held_back() const {
    std::size_t most = 0;
    for (const std::string& stop : stop_strings_) {
      std::size_t length = std::min(stop.size() - 1, held_.size());
      while (length > most && !held_.ends_with(std::string_view(stop).substr(0, length))) --length;
      most = std::max(most, length);
    }
    return most;
  }

  const std::optional<Tokenizer>& tokenizer_;
  std::optional<DecodeStream> stream_;
  std::vector<std::string> stop_strings_;
  std::string text_, held_;
  bool is_stopped_ = false;
};

// The content of a session's file, while the text grows.
struct Generator::Session {
  Session(const Generator& generator, LanguageModel::Prompts prompts, const GenerateOptions& search,
          const GeneratorOptions& options)
      : path(options.session),
        fingerprint(qkv::fingerprint(generator.model_, {.threads = options.threads, .stop = options.stop})) {
    refuse_unless(prompts.size() == 1, "generate", "a session takes 1 prompt, not {}", prompts.size());
    refuse_unless(search.beams == 1, "generate", "a session needs 1 beam, not {}", search.beams);
    const io::AtomicFile can_be_written(path);  // before any work
    if (io::is_there(path)) {
      kept = session_of(read_safetensors(path), path, generator.model_, fingerprint, options.cache_type);
    } else {
      kept.cache = generator.model_.make_cache(options.cache_type);
    }
  }

  // Behind the last prompt.
  Hypothesis written() const {
    return {.tokens = {kept.ids.end() - kept.written, kept.ids.end()}, .log_probability = kept.log_probability};
  }

  void keep(std::vector<std::int32_t> read, const SequenceStart& start, const GeneratedText& text) {
    kept.ids = std::move(read);
    kept.ids.insert(kept.ids.end(), text.ids.begin(), text.ids.end());
    kept.written = std::ssize(start.written.tokens) + std::ssize(text.ids);
    kept.log_probability = text.log_probability;
    kept.cache.reorder(std::vector<std::int64_t>{0}, std::vector<std::int64_t>{std::ssize(kept.ids) - 1});
    write_safetensors(path, session_file(kept, fingerprint));
  }

  std::string path, fingerprint;
  GeneratorSession kept{};
};

Generator::Generator(std::string folder, LanguageModel model, std::optional<Tokenizer> tokenizer,
                     GenerateOptions defaults, Lengths lengths, std::vector<std::string> stop_strings)
    : folder_(std::move(folder)),
      model_(std::move(model)),
      tokenizer_(std::move(tokenizer)),
      chat_(std::make_shared<ChatTemplate>(read_chat_template(folder_))),
      defaults_(std::move(defaults)),
      lengths_(lengths),
      stop_strings_(std::move(stop_strings)) {}

Generator Generator::load(const std::string& folder, WeightStorage storage) {
  const LanguageModelConfig config = LanguageModel::check(folder);
  const std::string tokens = is_gguf(folder) ? folder : folder + "/tokenizer.json";
  std::optional<Tokenizer> tokenizer;
  if (std::filesystem::exists(tokens)) tokenizer = Tokenizer::load(tokens, config.vocab);
  TextGeneration text = read_text_generation(folder, config.vocab);
  return Generator(folder, LanguageModel::load(folder, storage), std::move(tokenizer), std::move(text.options),
                   {text.max_length, text.max_new_tokens, text.min_length, text.min_new_tokens},
                   std::move(text.stop_strings));
}

const Tokenizer& Generator::tokenizer() const {
  if (!tokenizer_) throw FormatError(folder_ + "/tokenizer.json is missing: only ids can be read and written");
  return *tokenizer_;
}

GenerateOptions Generator::search_options(const GeneratorOptions& options) const {
  GenerateOptions search = defaults_;
  search.beams = beams(options);
  search.length_penalty = options.length_penalty.value_or(defaults_.length_penalty);
  search.repetition_penalty = options.repetition_penalty.value_or(defaults_.repetition_penalty);
  if (options.sampling) search.sampling = options.sampling;
  if (options.greedy) search.sampling.reset();
  search.nbest = options.nbest;
  if (options.heads.empty()) search.drafts = options.drafts;
  search.threads = options.threads;
  return search;
}

std::string Generator::refusal_of_length(std::int64_t tokens) const {
  if (tokens == 0) return "has no tokens; a prompt needs one";
  const std::int64_t positions = model_.config().positions;
  if (tokens < positions) return "";
  return fmt::format("has {} tokens; the model has {} positions, one of them for a new token", tokens, positions);
}

std::int64_t Generator::room(std::int64_t prompt, const GeneratorOptions& options) const {
  const bool given = options.max_new_tokens || options.max_length;
  const auto& max_new = given ? options.max_new_tokens : lengths_.max_new_tokens;
  const auto& max_length = given ? options.max_length : lengths_.max_length;
  std::int64_t most = max_new || max_length ? model_.config().positions : kNewTokens;
  if (max_length && !max_new) most = *max_length - prompt;
  if (max_new) most = *max_new;
  return std::min(std::max<std::int64_t>(most, 1), model_.config().positions - prompt);
}

// Texts while they are written, by the numbers of their prompts.
class Generator::Writing {
 public:
  Writing(const Generator& generator, const GeneratorOptions& options)
      : generator_(generator),
        options_(options),
        search_(generator.search_options(options)),
        stop_strings_(generator.stop_strings_) {
    stop_strings_.insert(stop_strings_.end(), options.stop_strings.begin(), options.stop_strings.end());
    for (const std::string& text : options.stop_strings)
      refuse_unless(!text.empty(), "generate", "a stop string is empty");
    if (!stop_strings_.empty()) generator.tokenizer();
    refuse_unless(search_.beams == 1 || (stop_strings_.empty() && !options.on_text), "generate",
                  "stop strings and on_text need 1 beam, not {}", search_.beams);
    for (const auto& [name, most] :
         {std::pair("max_new_tokens", options.max_new_tokens), std::pair("max_length", options.max_length)}) {
      refuse_unless(most.value_or(1) >= 1, "generate", "{} is {}; it must be 1 or more", name, most.value_or(1));
    }
    const Dtype type = options.cache_type;
    refuse_unless(type == Dtype::f32 || type == Dtype::bf16 || type == Dtype::f16, "generate",
                  "a cache is f32, bf16 or f16, not {}", name_of(type));
    refuse_unless(search_.beams == 1 || options.heads.empty(), "generate", "weights of heads need 1 beam, not {}",
                  search_.beams);
    search_.rows = kGeneratedRows;
    if (search_.beams > 1) return;
    search_.on_token = [this](std::int64_t sequence, std::span<const std::int32_t> written) {
      TextWriter& writer = texts_.at(static_cast<std::size_t>(sequence)).writer;
      if (!is_end(written.back())) give(static_cast<std::size_t>(sequence), writer.put(written.back()));
      return !writer.is_stopped();
    };
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

  const GenerateOptions& search() const { return search_; }
  PromptOptions reading(StackCache* cache = nullptr) {
    return {.chunk = options_.chunk,
            .heads = options_.heads,
            .on_weights =
                [this](std::size_t i, std::size_t head, std::span<const float> weights) {
                  texts_.at(i).weights[head].emplace_back(weights.begin(), weights.end());
                },
            .cache = cache,
            .cache_type = options_.cache_type,
            .threads = options_.threads};
  }

  // The next one. `read`: all that the model reads; its last tokens may be written before.
  ComingSequence begin(std::vector<std::int32_t> read, Hypothesis written = {}) {
    const std::size_t i = begun_++;
    const std::int64_t length = std::ssize(read), before = std::ssize(written.tokens);
    const std::string why = generator_.refusal_of_length(length);
    refuse_unless(why.empty(), "generate", "prompt {} {}", i + 1, why);
    const Lengths& lengths = generator_.lengths_;
    SequenceStart start{.stream = {options_.stream.line + i, options_.stream.part}, .written = std::move(written)};
    start.max_length = before + generator_.room(length, options_);
    start.min_length = lengths.min_new_tokens > 0 ? lengths.min_new_tokens
                                                  : std::max<std::int64_t>(0, lengths.min_length - (length - before));
    const TextWriter writer(generator_.tokenizer_, read, stop_strings_);
    read.resize(static_cast<std::size_t>(length - before));
    texts_.emplace(i, Text{before, read, writer, std::vector<HeadRows>(options_.heads.size())});
    return {std::move(read), std::move(start)};
  }

  std::vector<GeneratedText> end(std::size_t i, std::vector<Hypothesis> found) {
    auto text = texts_.extract(i);
    auto& [before, behind, streamed, weights] = text.mapped();
    std::vector<GeneratedText> results;
    for (Hypothesis& one : found) {
      one.tokens.erase(one.tokens.begin(), one.tokens.begin() + before);
      TextWriter fresh(generator_.tokenizer_, behind, {});
      TextWriter& writer = search_.beams == 1 ? streamed : fresh;
      for (std::size_t at = 0; search_.beams > 1 && at < one.tokens.size(); ++at) {
        if (!is_end(one.tokens[at])) writer.put(one.tokens[at]);
      }
      give(i, writer.finish());
      const EndOfText end = writer.is_stopped()         ? EndOfText::stop_string
                            : is_end(one.tokens.back()) ? EndOfText::end_token
                                                        : EndOfText::length;
      GeneratedText& result = results.emplace_back(GeneratedText{.text = writer.take(),
                                                                 .ids = std::move(one.tokens),
                                                                 .log_probability = one.log_probability,
                                                                 .score = one.score,
                                                                 .end = end});
      std::ranges::transform(weights, std::back_inserter(result.weights), stacked);
    }
    return results;
  }

 private:
  using HeadRows = std::vector<std::vector<float>>;
  struct Text {
    std::int64_t before;               // tokens written before
    std::vector<std::int32_t> behind;  // the tokens that the new text follows
    TextWriter writer;
    std::vector<HeadRows> weights;  // of each of the heads
  };

  bool is_end(std::int32_t id) const { return std::ranges::find(search_.ends, id) != search_.ends.end(); }
  void give(std::size_t i, const std::string& text) const {
    if (options_.on_text && !text.empty()) options_.on_text(i, text);
  }

  const Generator& generator_;
  const GeneratorOptions& options_;
  GenerateOptions search_;
  std::vector<std::string> stop_strings_;
  std::map<std::size_t, Text> texts_;
  std::size_t begun_ = 0;
};

std::vector<std::vector<GeneratedText>> Generator::generate_ids(LanguageModel::Prompts prompts,
                                                                const GeneratorOptions& options) const {
  const StopScope stop(options.stop);
  Writing writing(*this, options);
  std::optional<Session> session;
  if (!options.session.empty()) session.emplace(*this, prompts, writing.search(), options);
  std::vector<std::vector<std::int32_t>> all, behind;  // what the model reads, and behind what texts are written
  std::vector<SequenceStart> starts;
  for (const std::vector<std::int32_t>& prompt : prompts) {
    std::vector<std::int32_t>& own = all.emplace_back(session ? session->kept.ids : std::vector<std::int32_t>());
    own.insert(own.end(), prompt.begin(), prompt.end());
    auto [read, start] = writing.begin(own, session && prompt.empty() ? session->written() : Hypothesis());
    behind.push_back(std::move(read));
    starts.push_back(std::move(start));
  }
  const auto next = model_.next_tokens(all, writing.reading(session ? &session->kept.cache : nullptr));
  auto found = qkv::generate(*next, behind, writing.search(), starts);
  std::vector<std::vector<GeneratedText>> results;
  for (std::vector<Hypothesis>& hypotheses : found) {
    results.push_back(writing.end(results.size(), std::move(hypotheses)));
  }
  if (session) session->keep(all[0], starts[0], results[0].front());
  return results;
}

void Generator::generate_running(const std::function<std::optional<std::vector<std::int32_t>>(bool idle)>& next,
                                 const std::function<void(std::size_t prompt, std::vector<GeneratedText> texts)>& ended,
                                 const GeneratorOptions& options) const {
  refuse_unless(options.session.empty(), "generate", "a session takes 1 prompt");
  const StopScope stop(options.stop);
  Writing writing(*this, options);
  const auto tokens = model_.next_tokens({}, writing.reading());
  qkv::generate_running(
      *tokens,
      [&](bool idle) -> std::optional<ComingSequence> {
        std::optional<std::vector<std::int32_t>> prompt = next(idle);
        if (!prompt) return std::nullopt;
        return writing.begin(*std::move(prompt));
      },
      [&](std::int64_t sequence, std::vector<Hypothesis> found) {
        const auto i = static_cast<std::size_t>(sequence);
        ended(i, writing.end(i, std::move(found)));
      },
      writing.search());
}

std::vector<std::int32_t> Generator::prompt_ids(const std::string& prompt, PromptForm form) const {
  if (form == PromptForm::text) return tokenizer().encode(prompt).ids;
  return tokenizer()
      .encode(form == PromptForm::chat ? chat_->render(prompt) : prompt, {.add_special_tokens = false})
      .ids;
}

std::vector<std::int32_t> Generator::prompt_ids(const std::string& prompt, const GeneratorOptions& options) const {
  if (options.session.empty() || !io::is_there(options.session)) return prompt_ids(prompt, options.form);
  if (options.form != PromptForm::chat) return prompt_ids(prompt, PromptForm::raw);
  std::vector<std::int32_t> ids = session_ids(options.session);
  std::erase_if(ids, [this](std::int32_t id) { return !tokenizer().contains(id); });  // they have no text
  return prompt_ids(chat_->render_next(tokenizer().decode(ids, {.skip_special_tokens = false}), prompt),
                    PromptForm::raw);
}

std::vector<std::vector<GeneratedText>> Generator::generate(std::span<const std::string> prompts,
                                                            const GeneratorOptions& options) const {
  std::vector<std::vector<std::int32_t>> ids;
  for (const std::string& prompt : prompts) ids.push_back(prompt_ids(prompt, options));
  return generate_ids(ids, options);
}

GeneratedText Generator::generate(const std::string& prompt, const GeneratorOptions& options) const {
  return generate(std::span(&prompt, 1), options).front().front();
}

}  // namespace qkv
