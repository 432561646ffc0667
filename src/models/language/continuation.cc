// Continues prompts: reads their tokens into a cache, then those that generate() adds.
#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "core/refuse.h"
#include "core/stop.h"
#include "models/token_rows.h"
#include "qkv/models/language_model.h"
#include "qkv/stop.h"

namespace qkv {
namespace {

// How many of `left` tokens are read at once.
std::int64_t next_chunk(std::int64_t left, std::int64_t chunk) {
  const std::int64_t wanted = chunk == 0 ? left : std::min(std::max<std::int64_t>(chunk, 2), left);
  return left - wanted == 1 ? left : wanted;
}

// `rows` rises.
bool holds_row(const std::vector<std::size_t>& rows, std::size_t row) { return std::ranges::binary_search(rows, row); }

}  // namespace

// The prompts, and what generate() adds to them.
class LanguageModel::Continuation final : public NextTokens {
 public:
  Continuation(const LanguageModel& model, Prompts prompts, const PromptOptions& options)
      : model_(model),
        options_(options),
        own_cache_(model.layers_.make_cache(0, options.cache_type)),
        cache_(options.cache != nullptr ? *options.cache : own_cache_) {
    for (const TransformerLayerConfig& layer : model.config_.layers) has_windows_ |= layer.window.has_value();
    ask_for_weights();
    refuse_unless(options.chunk >= 0, "language_model", "chunks are of {} tokens; at least 0 is needed", options.chunk);
    for (const std::vector<std::int32_t>& prompt : prompts) add(prompt);
    if (options.cache != nullptr) take_cache();
  }

  std::int64_t vocab() const override { return model_.config_.vocab; }

  void add(std::span<const std::int32_t> prompt) override {
    refuse_unless(!prompt.empty(), "language_model", "a prompt is empty; it needs a token");
    check_length(std::ssize(prompt), model_.config_.positions);
    prompts_[added_++] = {prompt.begin(), prompt.end()};
  }

  MutableTensorView step(std::span<const std::int64_t> parents, std::span<const std::int32_t> tokens) override {
    return step_runs(parents, tokens, std::vector<std::int64_t>(parents.size(), 1));
  }

  MutableTensorView step_runs(std::span<const std::int64_t> parents, std::span<const std::int32_t> tokens,
                              std::span<const std::int64_t> lengths) override {
    const StopScope stop(options_.stop);
    std::vector<Row> rows;
    for (const std::int64_t parent : parents) {
      const bool begins = is_first_ || parent < 0;
      rows.push_back(begins ? begun(static_cast<std::size_t>(parent < 0 ? -1 - parent : parent))
                            : places_[static_cast<std::size_t>(parent)]);
    }
    is_first_ = false;
    forget_prompts(rows);
    continue_rows(std::move(rows));
    drop_unseen();
    const std::vector<std::size_t> reading = unread_rows();
    const Tensor behind_prompts = reading.empty() ? Tensor() : read_prompts(reading);
    const Tensor behind_tokens = read_runs(reading, tokens, lengths);
    logits_ = model_.project(reading.empty() ? behind_tokens : joined(reading, behind_prompts, behind_tokens),
                             options_.threads);
    return logits_;
  }

 private:
  // A sequence of the cache, or a place in one.
  struct Row {
    std::size_t prompt;
    std::int64_t read;      // tokens
    std::int64_t sequence;  // of the cache that it continues; -1: none
  };

  static constexpr std::int64_t kSharedTokens = 16, kTokensTogether = 1 << 15;

  void ask_for_weights() {
    const std::vector<TransformerLayerConfig>& layers = model_.config_.layers;
    if (!options_.heads.empty()) last_weights_.resize(layers.size());
    for (const auto& [layer, head] : options_.heads) {
      refuse_unless(layer >= 0 && layer < std::ssize(layers) && head >= 0 && head < layers.front().heads,
                    "language_model", "there is no head {}.{}; the layers are 0 to {}, the heads 0 to {}", layer, head,
                    layers.size() - 1, layers.front().heads - 1);
      last_weights_[static_cast<std::size_t>(layer)].heads.push_back(head);
    }
  }

  void take_cache() {
    const auto fits = [&](const TransformerLayerCache& layer) {
      return layer.self.batch() == 1 && layer.self.length(0) == cache_.layers.front().self.length(0);
    };
    refuse_unless(added_ == 1 && cache_.layers.size() == model_.config_.layers.size() &&
                      std::ranges::all_of(cache_.layers, fits) &&
                      cache_.layers.front().self.length(0) < std::ssize(prompts_.at(0)),
                  "language_model", "a cache must hold a prefix of one prompt, equally long in each layer");
    rows_ = {{.prompt = 0, .read = cache_.layers.front().self.length(0), .sequence = 0}};
  }

  // Row of a prompt that begins.
  Row begun(std::size_t prompt) const {
    return options_.cache != nullptr ? rows_.front() : Row{.prompt = prompt, .read = 0, .sequence = -1};
  }

  // Sequences of rows that ended.
  void forget_prompts(const std::vector<Row>& going) {
    for (const Row& row : rows_) {
      if (std::ranges::find(going, row.prompt, &Row::prompt) == going.end()) prompts_.erase(row.prompt);
    }
  }

  // The sequences of the cache become these.
  void continue_rows(std::vector<Row> rows) {
    std::vector<std::int64_t> parents, lengths;
    for (Row& row : rows) {
      parents.push_back(row.sequence);
      lengths.push_back(row.read);
      row.sequence = std::ssize(parents) - 1;
    }
    cache_.reorder(parents, lengths);
    rows_ = std::move(rows);
  }

  // Keys that no window of a token to come reaches.
  void drop_unseen() {
    for (std::size_t i = 0; has_windows_ && i < cache_.layers.size(); ++i) {
      const auto& window = model_.config_.layers[i].window;
      for (std::size_t r = 0; window && window->left >= 0 && r < rows_.size(); ++r) {
        const std::int64_t first = rows_[r].read - window->left;
        if (first > 0) cache_.layers[i].self.drop_before(static_cast<std::int64_t>(r), first);
      }
    }
  }

  // Sequences whose prompts are not read. The last token behind a cache is one more token, as if it had been written
  // now.
  std::vector<std::size_t> unread_rows() const {
    std::vector<std::size_t> unread;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const std::int64_t left = std::ssize(prompts_.at(rows_[r].prompt)) - rows_[r].read;
      if (left > (rows_[r].read > 0 ? 1 : 0)) unread.push_back(r);
    }
    return unread;
  }

  // A row whose prompt begins with tokens of another one, which are read once.
  struct Sharer {
    std::size_t row, source;
    std::int64_t tokens;  // of the source
  };

  // At least two tokens of each prompt are left to read: a single one has other bits.
  std::vector<Sharer> find_sharers(const std::vector<std::size_t>& reading) const {
    std::vector<std::size_t> sources;
    for (std::size_t r = 0; !has_windows_ && r < rows_.size(); ++r) {  // a window has dropped beginnings
      if (!holds_row(reading, r)) sources.push_back(r);
    }
    std::vector<Sharer> sharers;
    for (const std::size_t row : reading) {
      const std::vector<std::int32_t>& own = prompts_.at(rows_[row].prompt);
      Sharer best{row, row, rows_[row].read};
      for (const std::size_t source : sources) {
        const std::vector<std::int32_t>& other = prompts_.at(rows_[source].prompt);
        const auto same = std::ranges::mismatch(own, other).in1 - own.begin();
        const std::int64_t shared = std::min(same, std::ssize(own) - 2);
        if (shared >= best.tokens + kSharedTokens) best = {row, source, shared};
      }
      if (best.source != row) sharers.push_back(best);
      sources.push_back(row);
    }
    return sharers;
  }

  // The hidden state behind the prompt of each of these rows.
  Tensor read_prompts(const std::vector<std::size_t>& reading) {
    std::vector<Sharer> waiting = find_sharers(reading);
    Tensor last = Tensor::uninitialized({std::ssize(reading), model_.config_.model_dim});
    while (true) {
      check_stop();
      std::vector<Row> rows = rows_;
      std::erase_if(waiting, [&](const Sharer& sharer) {
        const bool ready = rows_[sharer.source].read >= sharer.tokens;
        if (ready) {
          rows[sharer.row].read = sharer.tokens;
          rows[sharer.row].sequence = static_cast<std::int64_t>(sharer.source);
        }
        return ready;
      });
      continue_rows(std::move(rows));
      if (waiting.empty()) drop_unseen();
      std::vector<std::size_t> next;
      std::ranges::copy_if(reading, std::back_inserter(next), [&](std::size_t row) {
        return std::ranges::find(waiting, row, &Sharer::row) == waiting.end();
      });
      if (!read_some(reading, next, last)) return last;
    }
  }

  // A chunk of each of the rows `next` whose prompt is not read yet. False: there was none.
  bool read_some(const std::vector<std::size_t>& reading, const std::vector<std::size_t>& next, Tensor& last) {
    std::vector<std::int64_t> counts(rows_.size());
    std::int64_t all = 0;
    for (const std::size_t row : next) {
      const std::int64_t left = std::ssize(prompts_.at(rows_[row].prompt)) - rows_[row].read;
      const std::int64_t count = next_chunk(left, options_.chunk);
      if (all > 0 && all + count > kTokensTogether) continue;
      all += counts[row] = count;
    }
    TokenRows tokens;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const auto own = std::span(prompts_.at(rows_[r].prompt));
      tokens.add(counts[r] == 0
                     ? own.first(0)
                     : own.subspan(static_cast<std::size_t>(rows_[r].read), static_cast<std::size_t>(counts[r])),
                 rows_[r].read);
    }
    if (all == 0) return false;
    const Tensor hidden = read(tokens, CacheQueries::together);
    std::int64_t end = 0;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      end += counts[r];
      if (counts[r] == 0) continue;
      const auto place = std::ranges::find(reading, r) - reading.begin();
      convert(hidden.view().slice(0, end - 1, end), last.view().slice(0, place, place + 1));
    }
    std::int64_t row = 0;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      if (counts[r] == 0) continue;
      if (rows_[r].read == std::ssize(prompts_.at(rows_[r].prompt))) give_weights(rows_[r].prompt, row, rows_[r].read);
      ++row;
    }
    return true;
  }

  // Appends tokens to the rows: their hidden states.
  Tensor read(const TokenRows& tokens, CacheQueries queries) {
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      rows_[r].read += tokens.lengths[r];
      check_length(rows_[r].read, model_.config_.positions);
    }
    const Tensor x = model_.embed(tokens.ids, tokens.positions), offsets = offsets_of(tokens.lengths);
    return model_.layers_.forward({x, offsets}, cache_, options_.threads, last_weights_, queries);
  }

  // Weights of a row of the last pass, which ended with `length` tokens.
  void give_weights(std::size_t prompt, std::int64_t row, std::int64_t length) const {
    for (std::size_t i = 0; i < options_.heads.size(); ++i) {
      const LastWeights& own = last_weights_[static_cast<std::size_t>(options_.heads[i].layer)];
      const auto count = std::ssize(own.heads);
      const auto place = std::ranges::find(own.heads, options_.heads[i].head) - own.heads.begin();
      const float* weights = own.weights.data<float>() + (row * count + place) * own.weights.size(1);
      options_.on_weights(prompt, i, {weights, static_cast<std::size_t>(length)});
    }
  }

  // The tokens behind the rows that are not reading: their hidden states. The next step may follow each of them.
  Tensor read_runs(const std::vector<std::size_t>& reading, std::span<const std::int32_t> tokens,
                   std::span<const std::int64_t> lengths) {
    places_.clear();
    TokenRows runs;
    std::size_t begin = 0;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const auto length = static_cast<std::size_t>(lengths[r]);
      const bool is_reading = holds_row(reading, r);
      runs.add(tokens.subspan(begin, is_reading ? 0 : length), rows_[r].read);
      begin += length;
      const std::int64_t before = is_reading ? rows_[r].read - lengths[r] : rows_[r].read;
      for (std::int64_t i = 1; i <= lengths[r]; ++i) {
        places_.push_back({rows_[r].prompt, before + i, static_cast<std::int64_t>(r)});
      }
    }
    if (runs.ids.empty()) return {};
    Tensor hidden = read(runs, CacheQueries::singly);
    std::int64_t row = 0;
    for (const Row& place : places_) {
      if (holds_row(reading, static_cast<std::size_t>(place.sequence))) continue;
      give_weights(place.prompt, row++, place.read);
    }
    return hidden;
  }

  // In the order of the rows: of those that read their prompt its last hidden state.
  Tensor joined(const std::vector<std::size_t>& reading, const Tensor& behind_prompts,
                const Tensor& behind_tokens) const {
    if (behind_tokens.element_count() == 0) return behind_prompts;
    Tensor all = Tensor::uninitialized({std::ssize(places_), model_.config_.model_dim});
    std::int64_t prompt = 0, token = 0, row = 0;
    for (const Row& place : places_) {
      const bool is_reading = holds_row(reading, static_cast<std::size_t>(place.sequence));
      std::int64_t& from = is_reading ? prompt : token;
      convert((is_reading ? behind_prompts : behind_tokens).view().slice(0, from, from + 1),
              all.view().slice(0, row, row + 1));
      ++from;
      ++row;
    }
    return all;
  }

  const LanguageModel& model_;
  const PromptOptions options_;
  std::map<std::size_t, std::vector<std::int32_t>> prompts_;  // by number, until their last row ends
  std::size_t added_ = 0;
  StackCache own_cache_;
  StackCache& cache_;
  std::vector<Row> rows_;                  // of the cache
  std::vector<Row> places_;                // of each row of the last step what continues it
  std::vector<LastWeights> last_weights_;  // of each layer; none: not asked for
  bool is_first_ = true, has_windows_ = false;
  Tensor logits_;
};

std::unique_ptr<NextTokens> LanguageModel::next_tokens(Prompts prompts, const PromptOptions& options) const {
  return std::make_unique<Continuation>(*this, prompts, options);
}

}  // namespace qkv
