// Greedy search and sampling: one token after the other, the most probable one or a random one.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/mathematics.h"
#include "decode/search.h"
#include "ops/rowwise/row_kernels.h"
#include "qkv/random.h"

namespace qkv::inline decoding {
namespace {

// The most probable tokens first, as many of them as are asked for: the vocabulary is never sorted. Weights are
// probabilities but for a common factor.
class RankedTokens {
 public:
  RankedTokens(std::span<const float> logits, const Sampling& sampling)
      : logits_(logits),
        temperature_(sampling.temperature),
        most_(sampling.top_k > 0 ? std::min(static_cast<std::size_t>(sampling.top_k), logits.size()) : logits.size()) {
    rank(std::min(most_, kFirst));
    if (most_ < logits.size()) {
      reach([](const RankedTokens&) { return false; });
      sum_ = up_to_.back();
    } else {
      for (const float logit : logits) sum_ += weight(logit);
    }
  }

  double sum() const { return sum_; }
  const TokenLogit& token(std::size_t rank) const { return tokens_[rank]; }
  double weight_at(std::size_t rank) const { return weight(tokens_[rank].logit); }

  // The first rank up to which the weights sum to `wanted`; the last one if none.
  std::size_t at(double wanted) {
    reach([&](const RankedTokens& ranked) { return ranked.up_to_.back() >= wanted; });
    const auto found = std::lower_bound(up_to_.begin(), up_to_.end(), wanted) - up_to_.begin();
    return std::min(static_cast<std::size_t>(found), tokens_.size() - 1);
  }

  // The last rank whose weight is at least `least`, which is at most the first one's.
  std::size_t last_above(double least) {
    reach([&](const RankedTokens& ranked) { return ranked.weight(ranked.tokens_.back().logit) < least; });
    std::size_t rank = tokens_.size() - 1;
    while (rank > 0 && weight_at(rank) < least) --rank;
    return rank;
  }

  double up_to(std::size_t rank) const { return up_to_[rank]; }

 private:
  static constexpr std::size_t kFirst = 64, kGrowth = 8;

  double weight(float logit) const {
    return exp((static_cast<double>(logit) - static_cast<double>(tokens_.front().logit)) / temperature_);
  }

  // More tokens until there are enough, or no others.
  template <class Enough>
  void reach(const Enough& enough) {
    while (asked_ < most_ && !enough(*this)) rank(std::min(most_, kGrowth * asked_));
  }

  void rank(std::size_t count) {
    asked_ = count;
    if (count <= kFirst) {
      tokens_.resize(count);
      tokens_.resize(largest_logits(logits_, tokens_));
    } else {
      select(count);
    }
    up_to_.clear();
    double sum = 0;
    for (const TokenLogit& token : tokens_) up_to_.push_back(sum += weight(token.logit));
  }

  // The same of many, for which a sorted list would be too long.
  void select(std::size_t count) {
    tokens_.clear();
    for (std::size_t i = 0; i < logits_.size(); ++i) {
      if (logits_[i] > -std::numeric_limits<float>::infinity()) {
        tokens_.push_back({logits_[i], static_cast<std::int32_t>(i)});
      }
    }
    const auto is_before = [](const TokenLogit& a, const TokenLogit& b) {
      return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
    };
    const auto end = tokens_.begin() + static_cast<std::ptrdiff_t>(std::min(count, tokens_.size()));
    std::nth_element(tokens_.begin(), end, tokens_.end(), is_before);
    tokens_.erase(end, tokens_.end());
    std::sort(tokens_.begin(), tokens_.end(), is_before);
  }

  std::span<const float> logits_;
  double temperature_;
  std::size_t most_, asked_ = 0;
  std::vector<TokenLogit> tokens_;
  std::vector<double> up_to_;
  double sum_ = 0;  // of all that top_k leaves
};

class Chain final : public Search {
 public:
  Chain(GenerateOptions options, Prompt prompt, RandomStream stream, Hypothesis written)
      : options_(std::move(options)), prompt_(prompt), stream_(stream), written_(std::move(written)) {}

  std::span<const Row> advance(const MutableTensorView& logits) override {
    const bool last = written_.tokens.size() + 1 == static_cast<std::size_t>(options_.max_length);
    const auto forced = forced_token(written_.tokens, options_);
    const std::int32_t token = forced ? *forced : choose(logits);
    written_.tokens.push_back(token);
    row_ = {0, token};
    return {&row_, last || is_end(token, options_) ? std::size_t{0} : std::size_t{1}};
  }

  std::span<const std::int32_t> written() const override { return written_.tokens; }

  std::vector<Hypothesis> hypotheses() override {
    const auto length = static_cast<double>(written_.tokens.size());
    written_.score = written_.log_probability / pow(length, options_.length_penalty);
    return {std::move(written_)};
  }

 private:
  std::int32_t choose(const MutableTensorView& logits) {
    const LogitRow row(logits, 0, prompt_, written_.tokens, options_);
    TokenLogit chosen;
    if (options_.sampling) {
      chosen = draw(row.logits, *options_.sampling);
    } else {
      largest_logits(row.logits, {&chosen, 1});
    }
    written_.log_probability += static_cast<double>(chosen.logit) - row.log_sum_exp;
    return chosen.token;
  }

  TokenLogit draw(std::span<const float> logits, const Sampling& sampling) const {
    RankedTokens ranked(logits, sampling);
    double sum = ranked.sum();
    if (sampling.top_p < 1) sum = ranked.up_to(ranked.at(sampling.top_p * sum));
    if (sampling.min_p > 0) {
      sum = std::min(sum, ranked.up_to(ranked.last_above(sampling.min_p * ranked.weight_at(0))));
    }
    return ranked.token(ranked.at(uniform(sampling.seed) * sum));
  }

  // In [0, 1), 53 bits, from the seed, the stream and the position in the sequence alone.
  double uniform(std::uint64_t seed) const {
    const auto bits = philox({static_cast<std::uint32_t>(written_.tokens.size()), stream_.part,
                              static_cast<std::uint32_t>(stream_.line), static_cast<std::uint32_t>(stream_.line >> 32)},
                             seed);
    return static_cast<double>((std::uint64_t{bits[0]} << 32 | bits[1]) >> 11) * 0x1p-53;
  }

  const GenerateOptions options_;
  const Prompt prompt_;
  const RandomStream stream_;
  Hypothesis written_;
  Row row_{};
};

}  // namespace

std::unique_ptr<Search> make_chain(GenerateOptions options, Prompt prompt, RandomStream stream, Hypothesis written) {
  return std::make_unique<Chain>(std::move(options), prompt, stream, std::move(written));
}

}  // namespace qkv::inline decoding
