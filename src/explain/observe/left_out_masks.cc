// Writes zeros where a key or a head is left out.
#include "explain/observe/left_out_masks.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "explain/observe/require.h"

namespace qkv {
namespace {

void check_site(const Attentions& attentions, std::size_t site) {
  require(site < attentions.sites.size(), "there is no attention {}; the model has {}", site, attentions.sites.size());
}

std::int64_t keys_of(const Attentions& attentions, std::size_t site) {
  return std::ssize(attentions.sequences[attentions.sites[site].keys].tokens);
}

}  // namespace

Outcome Explainable::outcome(const LeftOut&) const {
  refuse("explain", "models of this kind do not support leaving out heads or keys");
}

inline namespace explaining {

void check_head(const Attentions& attentions, const HeadIndex& index) {
  check_site(attentions, index.site);
  const AttentionSite& site = attentions.sites[index.site];
  if (index.layer < 0 || index.layer >= site.layers) {
    refuse("explain", "there is no layer {}; the model has layers 0 to {}", index.layer, site.layers - 1);
  }
  if (index.head < 0 || index.head >= site.heads) {
    refuse("explain", "there is no head {}; each layer has heads 0 to {}", index.head, site.heads - 1);
  }
}

void check_left_out(const Attentions& attentions, const LeftOut& left_out) {
  for (const auto& [key, site] : left_out.keys) {
    check_site(attentions, site);
    const std::int64_t keys = keys_of(attentions, site);
    require(key >= 0 && key < keys, "there is no key {}; the keys are 0 to {}", key, keys - 1);
  }
  for (const HeadIndex& index : left_out.heads) check_head(attentions, index);
}

void check_whole(const Attentions& attentions) {
  const auto& [keys, heads] = attentions.left_out;
  require(keys.empty() && heads.empty(), "gradients are those of the whole model: leave nothing out");
}

double largest_entropy(const Attentions& attentions, std::size_t site) {
  const AttentionSite& own = attentions.sites[site];
  std::vector<std::int64_t> seen(static_cast<std::size_t>(keys_of(attentions, site)), 1);
  for (const KeyIndex& one : attentions.left_out.keys) {
    if (one.site == site) seen[static_cast<std::size_t>(one.key)] = 0;
  }
  std::partial_sum(seen.begin(), seen.end(), seen.begin());  // of the first keys
  const std::size_t queries = attentions.sequences[own.queries].tokens.size();
  double sum = 0;
  for (std::size_t i = 0; i < queries; ++i) {
    const std::int64_t keys = own.causal && i < seen.size() ? seen[i] : seen.back();
    if (keys > 1) sum += log(static_cast<double>(keys));
  }
  return sum / static_cast<double>(queries);
}

std::string without(const Attentions& attentions) {
  const auto place = [&](std::size_t site) {
    return attentions.sites.size() > 1 ? attentions.sites[site].option() + " " : std::string();
  };
  std::vector<std::string> all;
  for (const HeadIndex& one : attentions.left_out.heads) {
    all.push_back(fmt::format("{}head {}.{}", place(one.site), one.layer, one.head));
  }
  for (const auto& [key, site] : attentions.left_out.keys) {
    const std::string& name = attentions.sequences[attentions.sites[site].keys].tokens[static_cast<std::size_t>(key)];
    all.push_back(fmt::format("{}key {}, \"{}\"", place(site), key, name));
  }
  return all.empty() ? "" : fmt::format(" without {}", fmt::join(all, " and "));
}

LeftOutMasks::LeftOutMasks(const Attentions& attentions, const LeftOut& more)
    : visible_(attentions.sites.size()), masks_(attentions.sites.size()) {
  leave_out(attentions, attentions.left_out);
  leave_out(attentions, more);
  for (std::size_t s = 0; s < masks_.size(); ++s) {
    for (const Tensor& visible : visible_[s]) masks_[s].push_back(Mask::boolean(visible));
  }
}

void LeftOutMasks::leave_out(const Attentions& attentions, const LeftOut& left_out) {
  check_left_out(attentions, left_out);
  for (const auto& [key, site] : left_out.keys) {
    const std::int64_t keys = keys_of(attentions, site);
    for (Tensor& layer : visible(attentions, site)) {
      for (std::int64_t head = 0; head < layer.size(0); ++head) layer.data<std::uint8_t>()[head * keys + key] = 0;
    }
  }
  for (const HeadIndex& index : left_out.heads) {
    Tensor& layer = visible(attentions, index.site)[static_cast<std::size_t>(index.layer)];
    std::fill_n(layer.data<std::uint8_t>() + index.head * layer.size(2), layer.size(2), std::uint8_t{0});
  }
}

std::vector<Tensor>& LeftOutMasks::visible(const Attentions& attentions, std::size_t site) {
  const AttentionSite& own = attentions.sites[site];
  while (std::ssize(visible_[site]) < own.layers) {
    Tensor& all = visible_[site].emplace_back(Tensor::zeros({own.heads, 1, keys_of(attentions, site)}, Dtype::u8));
    std::fill_n(all.data<std::uint8_t>(), all.element_count(), std::uint8_t{1});
  }
  return visible_[site];
}

}  // namespace explaining
}  // namespace qkv
