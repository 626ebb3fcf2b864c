#include "src/eval/reach.h"

#include <algorithm>

namespace tt::eval {
namespace {

// Arguments are aligned at the right, as in broadcasting. All tile values must have the same rank,
// so that lines and tiles match. The other values must not reach the outer dimensions.
bool are_aligned(const std::vector<Reached>& arguments, std::int64_t rank,
                 std::int64_t outer_dims) {
  return std::ranges::all_of(
      arguments,
      [=](const Reached& argument) {
        if (argument.reach == Reach::kTile) return argument.rank == rank;
        return argument.rank <= rank - outer_dims ||
               (argument.elements == 1 && argument.rank <= rank);
      });
}

bool are_inner(const std::optional<std::vector<std::int64_t>>& dims, std::int64_t rank,
               std::int64_t outer_dims) {
  return dims && !dims->empty() &&
         std::ranges::all_of(
             *dims, [=](std::int64_t dim) { return (dim < 0 ? dim + rank : dim) >= outer_dims; });
}

}  // namespace

Reach combine(Pattern pattern, const std::vector<Reached>& arguments,
              const std::optional<std::vector<std::int64_t>>& dims, std::int64_t outer_dims) {
  const auto has = [&](Reach reach) {
    return std::ranges::any_of(arguments, [reach](const Reached& a) { return a.reach == reach; });
  };
  if (has(Reach::kWide)) return Reach::kWide;
  if (!has(Reach::kTile)) return Reach::kNothing;
  if (pattern == Pattern::kAnywhere) return Reach::kWide;
  const std::int64_t rank = std::ranges::find(arguments, Reach::kTile, &Reached::reach)->rank;
  if (!are_aligned(arguments, rank, outer_dims)) return Reach::kWide;
  const bool stays = pattern == Pattern::kElementwise || are_inner(dims, rank, outer_dims);
  return stays ? Reach::kTile : Reach::kWide;
}

}  // namespace tt::eval
