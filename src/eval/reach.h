#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tt::eval {

/// How a value depends on one input of shape [lines, tiles, width] or [rows, lines, tiles, width],
/// whose outer dims are all but the last.
enum class Reach : std::uint8_t {
  kNothing,  // not at all
  kTile,     // the outer dims, then any; the part at one tile depends on that tile only
  kWide,     // anything else
};

/// One Reach per input of the program.
using Reaches = std::vector<Reach>;

/// What an operator does to the dimensions of its arguments.
enum class Pattern : std::uint8_t {
  kElementwise,  // acts on each element alone, with broadcasting
  kAlongDim,     // acts along the dimensions of its argument "dim" or "dims" alone
  kAnywhere,
};

/// A tensor argument of a call.
struct Reached {
  Reach reach = Reach::kNothing;
  std::int64_t rank = 0;
  std::int64_t elements = 0;
};

/// The reach of a call's results into an input with so many outer dims. `dims` are those of
/// kAlongDim as given, nothing if all are meant.
Reach combine(Pattern pattern, const std::vector<Reached>& arguments,
              const std::optional<std::vector<std::int64_t>>& dims, std::int64_t outer_dims);

}  // namespace tt::eval
