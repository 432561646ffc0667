// What a survey of heads keeps of weights for a report: all of short inputs, maps of long ones.
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/explain/explain_model.h"

namespace qkv::inline explaining {

class SurveyMaps {
 public:
  // std::invalid_argument if there is no such head or row, or if there is more than fits.
  SurveyMaps(const Attentions& attentions, const HeadMapsOptions& options);

  // Whether an attention has too many queries or keys for every weight to be kept.
  bool is_long(std::size_t site) const;

  // Of the weights [queries, keys], f64, of a head of such an attention.
  HeadMap map(const HeadIndex& head, const Tensor& weights) const;

 private:
  const Attentions& attentions_;
  HeadMapsOptions options_;
  std::int64_t grid_ = 0;
};

}  // namespace qkv::inline explaining
