#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "tensor_tracer/vectors/bootstrap.h"
#include "tensor_tracer/vectors/group_sums.h"
#include "tensor_tracer/vectors/kinds.h"

namespace tt::vectors {

/// How well the projections on the rows of a vector tell texts apart that are not in the vector.
/// By row.
struct HeldOutScores {
  std::vector<std::optional<double>> pairs_above;  // share_above(); empty: the texts are no pairs
  std::vector<std::optional<double>> area;         // area_under_curve()
  std::array<std::int64_t, kNumSides> texts = {};
};

/// A vector of one kind.
struct ExtractedVector {
  at::Tensor rows;  // float64 [layers + 1, hidden]; undefined: a side has no tokens of the kind
  std::array<std::int64_t, kNumSides> texts = {};
  Stability stability;
  /// Of every second held-out text. nullopt: none is held out.
  std::optional<HeldOutScores> scores;
  /// The layer, the last one left out, with the largest area on the other held-out texts, and of
  /// equal ones the largest effect_size(). nullopt: as `scores`.
  std::optional<std::int64_t> best_layer;
};

/// Of the texts that are not in a vector.
struct HeldOutProjections {
  /// float64 [texts, kinds, rows], the positive texts first: the projections of their mean states
  /// on the unit vectors of the rows. NaN: the text has no token of the kind.
  at::Tensor numbers;
  std::int64_t positive = 0;  // texts of the positive side; 0: none is held out
};

/// Throws std::runtime_error with the first row whose differences are not finite, of the kinds that
/// both sides have.
void require_finite(const GroupSums& sums);

/// The vector of a kind, from the sums over all ranks. `are_pairs`: texts of the two sides with one
/// index are a pair. `seed`: of the bootstrap. Thread: any.
ExtractedVector extract_vector(const GroupSums& sums, const HeldOutProjections& held_out, Kind kind,
                               bool are_pairs, std::uint64_t seed);

/// What a provenance states about a vector (docs/vectors.md, "Provenance"): `texts_in_vector`,
/// `best_layer`, `held_out_texts`, `by_row`.
nlohmann::json evidence_of(const ExtractedVector& vector);

}  // namespace tt::vectors
