#pragma once

#include <cstddef>
#include <optional>
#include <vector>

/// How well one number per text tells the two sides of a contrast apart. Thread: any.
namespace tt::vectors {

/// The probability that a positive number is above a negative one, of all combinations; equal
/// numbers count one half. This is the area under the ROC curve, and the U of Mann and Whitney
/// (1947) divided by the number of combinations. nullopt: a side is empty.
std::optional<double> area_under_curve(const std::vector<double>& positive,
                                       const std::vector<double>& negative);

/// The share of pairs (positive[i], negative[i]) in which the positive number is above the other.
/// nullopt: there is no pair. REQUIRES: both have the same size.
std::optional<double> share_above(const std::vector<double>& positive,
                                  const std::vector<double>& negative);

/// The difference of the means divided by the pooled standard deviation (Cohen's d). nullopt: fewer
/// than two numbers on a side, or all are equal.
std::optional<double> effect_size(const std::vector<double>& positive,
                                  const std::vector<double>& negative);

}  // namespace tt::vectors
