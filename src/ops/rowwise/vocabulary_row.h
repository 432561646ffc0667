// What the search for tokens needs of a row of logits: its largest ones and its log-sum-exp.
#pragma once

#include <cstdint>
#include <span>

namespace qkv::inline ops {

// log(sum(exp(row))), NaN if one of them is.
double log_sum_exp(std::span<const float> row);

struct TokenLogit {
  float logit;
  std::int32_t token;
};

// The largest logits of the row, falling, into `best`; equal ones: the lower token first. NaN and -infinity are passed
// over; returns how many were found.
std::size_t largest_logits(std::span<const float> row, std::span<TokenLogit> best);

}  // namespace qkv::inline ops
