// Whether two lists of numbers rank their entries alike.
#pragma once

#include <optional>
#include <span>

namespace qkv::inline explaining {

// Spearman's rank correlation: Pearson's of the ranks, where equal numbers share the mean of their ranks. From -1 to 1;
// none for fewer than two entries, for a list of equal numbers, and where a number is not finite.
// Source: Spearman, "The proof and measurement of association between two things" (1904).
std::optional<double> rank_correlation(std::span<const double> a, std::span<const double> b);

}  // namespace qkv::inline explaining
