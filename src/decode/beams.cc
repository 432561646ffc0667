// Beam search: continues the `beams` most probable beginnings together, until none can beat what has ended.
#include <algorithm>
#include <utility>

#include "core/mathematics.h"
#include "decode/search.h"
#include "ops/rowwise/row_kernels.h"

namespace qkv::inline decoding {
namespace {

class Beams final : public Search {
 public:
  Beams(GenerateOptions options, Prompt prompt)
      : options_(std::move(options)),
        prompt_(prompt),
        width_(static_cast<std::size_t>(options_.beams)),
        running_{{{}, 0}} {}

  std::span<const Row> advance(const MutableTensorView& logits) override {
    ++length_;
    const bool last = length_ == options_.max_length;
    find_candidates(logits);

    std::vector<Hypothesis> running;
    rows_.clear();
    for (std::size_t rank = 0; rank < candidates_.size() && rows_.size() < width_; ++rank) {
      const Candidate& candidate = candidates_[rank];
      const bool ends = last || is_end(candidate.token, options_);
      if (ends && rank >= width_) continue;
      Hypothesis next{running_[static_cast<std::size_t>(candidate.parent)].tokens, candidate.log_probability};
      next.tokens.push_back(candidate.token);
      if (ends) {
        keep(std::move(next));
      } else {
        running.push_back(std::move(next));
        rows_.push_back({candidate.parent, candidate.token});
      }
    }
    running_ = std::move(running);
    if (is_over()) rows_.clear();
    return rows_;
  }

  std::vector<Hypothesis> hypotheses() override {
    ended_.resize(std::min(ended_.size(), static_cast<std::size_t>(options_.nbest)));
    return std::move(ended_);
  }

 private:
  struct Candidate {
    std::int64_t parent;
    std::int32_t token;
    double log_probability;
  };

  // The most probable continuations, enough that `beams` of them continue even if others end.
  void find_candidates(const MutableTensorView& logits) {
    candidates_.clear();
    std::vector<TokenLogit> best((1 + options_.ends.size()) * width_);
    for (std::size_t at = 0; at < running_.size(); ++at) {
      const auto parent = static_cast<std::int64_t>(at);
      if (const auto forced = forced_token(running_[at].tokens, options_)) {
        candidates_.push_back({parent, *forced, running_[at].log_probability});
        continue;
      }
      const LogitRow row(logits, parent, prompt_, running_[at].tokens, options_);
      const std::size_t found = largest_logits(row.logits, best);
      for (std::size_t i = 0; i < found; ++i) {
        const double log_probability = static_cast<double>(best[i].logit) - row.log_sum_exp;
        candidates_.push_back({parent, best[i].token, running_[at].log_probability + log_probability});
      }
    }
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.log_probability > b.log_probability; });
    candidates_.resize(std::min(candidates_.size(), best.size()));
  }

  double score(double log_probability, std::int64_t length) const {
    return log_probability / pow(static_cast<double>(length), options_.length_penalty);
  }

  void keep(Hypothesis hypothesis) {
    hypothesis.score = score(hypothesis.log_probability, length_);
    const auto position = std::upper_bound(ended_.begin(), ended_.end(), hypothesis,
                                           [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
    ended_.insert(position, std::move(hypothesis));
    if (ended_.size() > width_) ended_.pop_back();
  }

  bool is_over() const {
    if (running_.empty()) return true;
    if (ended_.size() < width_) return false;
    if (options_.early_stopping == EarlyStopping::yes) return true;
    const bool longest = options_.early_stopping == EarlyStopping::never && options_.length_penalty > 0;
    return score(running_.front().log_probability, longest ? options_.max_length : length_) <= ended_.back().score;
  }

  const GenerateOptions options_;
  const Prompt prompt_;
  const std::size_t width_;
  std::int64_t length_ = 0;
  std::vector<Hypothesis> running_;  // most probable first
  std::vector<Hypothesis> ended_;    // best first
  std::vector<Candidate> candidates_;
  std::vector<Row> rows_;
};

}  // namespace

std::unique_ptr<Search> make_beams(GenerateOptions options, Prompt prompt) {
  return std::make_unique<Beams>(std::move(options), prompt);
}

}  // namespace qkv::inline decoding
