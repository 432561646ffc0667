// Greedy search and sampling: one token after the other, the most probable one or a random one.
#include <algorithm>

#include "core/mathematics.h"
#include "decode/search.h"
#include "ops/rowwise/row_kernels.h"
#include "qkv/random.h"

namespace qkv::inline decoding {
namespace {

class Chain final : public Search {
 public:
  Chain(const GenerateOptions& options, RandomStream stream) : options_(options), stream_(stream) {}

  std::span<const Row> advance(const MutableTensorView& logits) override {
    const bool last = written_.tokens.size() + 1 == static_cast<std::size_t>(options_.max_length);
    const auto forced = forced_token(written_.tokens, options_);
    const std::int32_t token = forced ? *forced : choose(logits);
    written_.tokens.push_back(token);
    row_ = {0, token};
    return {&row_, last || is_end(token, options_) ? std::size_t{0} : std::size_t{1}};
  }

  std::vector<Hypothesis> hypotheses() override {
    const auto length = static_cast<double>(written_.tokens.size());
    written_.score = written_.log_probability / pow(length, options_.length_penalty);
    return {std::move(written_)};
  }

 private:
  std::int32_t choose(const MutableTensorView& logits) {
    const LogitRow row(logits, 0, written_.tokens, options_);
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
    const std::size_t all = logits.size();
    const auto top_k = static_cast<std::size_t>(sampling.top_k);
    std::vector<TokenLogit> tokens(all);
    if (top_k > 0 && top_k < all) {
      tokens.resize(top_k);
      tokens.resize(largest_logits(logits, tokens));
    } else {
      for (std::size_t i = 0; i < all; ++i) tokens[i] = {logits[i], static_cast<std::int32_t>(i)};
      std::stable_sort(tokens.begin(), tokens.end(),
                       [](const TokenLogit& a, const TokenLogit& b) { return a.logit > b.logit; });
    }
    std::vector<double> up_to(tokens.size());  // sums of probabilities, not normalised
    double sum = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      sum += exp((static_cast<double>(tokens[i].logit) - static_cast<double>(tokens[0].logit)) / sampling.temperature);
      up_to[i] = sum;
    }
    if (sampling.top_p < 1) {
      sum = *std::lower_bound(up_to.begin(), up_to.end(), sampling.top_p * sum);
    }
    const auto drawn = std::lower_bound(up_to.begin(), up_to.end(), uniform(sampling.seed) * sum);
    return tokens[static_cast<std::size_t>(drawn - up_to.begin())];
  }

  // In [0, 1), 53 bits, from the seed, the stream and the position in the sequence alone.
  double uniform(std::uint64_t seed) const {
    const auto bits = philox({static_cast<std::uint32_t>(written_.tokens.size()), stream_.part,
                              static_cast<std::uint32_t>(stream_.line), static_cast<std::uint32_t>(stream_.line >> 32)},
                             seed);
    return static_cast<double>((std::uint64_t{bits[0]} << 32 | bits[1]) >> 11) * 0x1p-53;
  }

  const GenerateOptions& options_;
  const RandomStream stream_;
  Hypothesis written_;
  Row row_{};
};

}  // namespace

std::unique_ptr<Search> make_chain(const GenerateOptions& options, RandomStream stream) {
  return std::make_unique<Chain>(options, stream);
}

}  // namespace qkv::inline decoding
