// Masks that leave keys and heads out of a run: a head all of whose keys are hidden gives 0.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "qkv/attention/mask.h"
#include "qkv/explain/explainable.h"

namespace qkv::inline explaining {

// std::invalid_argument if there is no such attention, layer or head.
void check_head(const Attentions& attentions, const HeadIndex& index);

// std::invalid_argument if a head or a key is not there.
void check_left_out(const Attentions& attentions, const LeftOut& left_out);

// std::invalid_argument if anything is left out: there are gradients of the whole model only.
void check_whole(const Attentions& attentions);

// The mean over the queries of the logarithm of how many keys each sees: the entropy of weights spread evenly.
double largest_entropy(const Attentions& attentions, std::size_t site);

// How many tokens at the end of the text were not read.
inline std::int64_t cut_of(const Attentions& attentions) {
  if (attentions.outputs) return attentions.outputs->cut;
  return attentions.alignment ? attentions.alignment->cut : 0;
}

// " without head 0.1 and key 3, \"you\"", for titles; empty if nothing is left out.
std::string without(const Attentions& attentions);

class LeftOutMasks {
 public:
  // For attentions.left_out, and for more. Errors as check_left_out().
  explicit LeftOutMasks(const Attentions& attentions, const LeftOut& more = {});

  // One for each layer of an attention; none where nothing is left out.
  std::span<const Mask> of(std::size_t site) const { return masks_[site]; }

 private:
  void leave_out(const Attentions& attentions, const LeftOut& left_out);
  // [heads, 1, keys] of each layer: 1 where a head sees a key.
  std::vector<Tensor>& visible(const Attentions& attentions, std::size_t site);

  std::vector<std::vector<Tensor>> visible_{};
  std::vector<std::vector<Mask>> masks_{};
};

}  // namespace qkv::inline explaining
