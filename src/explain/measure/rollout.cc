// Takes a vector through the layers of a run, block by block of queries.
#include "explain/measure/rollout.h"

#include <algorithm>

#include "explain/observe/left_out_masks.h"
#include "explain/observe/require.h"
#include "qkv/attention.h"

namespace qkv::inline explaining {
namespace {

constexpr std::int64_t kBlock = 64;  // queries whose weights are there at once

// row [tokens] times (A + I) / 2.
std::vector<double> through_layer(const std::vector<double>& row, const TensorView& queries, const TensorView& keys,
                                  const Mask& mask) {
  const TensorView by_head = queries.transpose(0, 1), k = keys.transpose(0, 1);
  const std::int64_t heads = by_head.size(0), tokens = by_head.size(1);
  std::vector<double> next(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) next[i] = row[i] / 2;
  for (std::int64_t begin = 0; begin < tokens; begin += kBlock) {
    const std::int64_t end = std::min(begin + kBlock, tokens);
    const auto share = [&](std::int64_t i) { return row[static_cast<std::size_t>(i)]; };
    bool is_empty = true;
    for (std::int64_t i = begin; i < end; ++i) is_empty = is_empty && share(i) == 0;
    if (is_empty) continue;
    Tensor weights = Tensor::uninitialized({heads, end - begin, tokens}, queries.dtype());
    attention(by_head.slice(1, begin, end), k, k, {.mask = mask}, {.weights = weights});
    const Tensor exact = convert(weights, Dtype::f64);
    const double* weight = exact.data<double>();
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t i = begin; i < end; ++i) {
        const double part = share(i) / static_cast<double>(2 * heads);
        for (double& sum : next) sum += part * *weight++;
      }
    }
  }
  return next;
}

}  // namespace

Rollout::Rollout(const Explainable& input) : input_(input) {
  const std::vector<AttentionSite>& sites = input.attentions().sites;
  require(sites.size() == 1 && sites.front().queries == sites.front().keys && !sites.front().causal &&
              sites.front().score == Score::Kind::scaled_dot,
          "rollout is of an encoder, whose tokens all attend to each other");
}

bool Rollout::wants(std::string_view name) const { return name.ends_with(".query") || name.ends_with(".key"); }

void Rollout::receive(std::string_view name, const TensorView& value) {
  const AttentionSite& site = input_.attentions().sites.front();
  if (name == site.scope(std::ssize(queries_)) + "query") queries_.push_back(Tensor::copy(value));
  if (name == site.scope(std::ssize(keys_)) + "key") keys_.push_back(Tensor::copy(value));
}

std::vector<double> Rollout::of(std::int64_t token) const {
  const LeftOutMasks masks(input_.attentions());
  std::vector<double> row(input_.attentions().sequences[input_.attentions().sites.front().queries].tokens.size());
  row.at(static_cast<std::size_t>(token)) = 1;
  for (std::size_t layer = queries_.size(); layer-- > 0;) {
    row = through_layer(row, queries_[layer], keys_[layer], masks.of(0).empty() ? Mask() : masks.of(0)[layer]);
  }
  return row;
}

}  // namespace qkv::inline explaining
