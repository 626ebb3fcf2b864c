#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tt::eval {

/// How a value depends on one input of shape [lines, tiles, width] or [rows, lines, tiles, width],
/// whose outer dims are all dims except the last.
enum class Reach : std::uint8_t {
  kNothing,  // does not depend on the input
  kTile,     // has the outer dims first; the part at one tile depends only on that tile
  kWide,     // anything else
};

/// One Reach per input of the program.
using Reaches = std::vector<Reach>;

/// How an operator acts on the dimensions of its arguments.
enum class Pattern : std::uint8_t {
  kElementwise,  // acts on each element separately, with broadcasting
  kAlongDim,     // acts only along the dimensions of its argument "dim" or "dims"
  kAnywhere,
};

/// A tensor argument of a call.
struct Reached {
  Reach reach = Reach::kNothing;
  std::int64_t rank = 0;
  std::int64_t elements = 0;
};

/// The reach of a call's results into an input with `outer_dims` outer dims. `dims`: the dims of
/// kAlongDim as written; nullopt: all dims.
Reach combine(Pattern pattern, const std::vector<Reached>& arguments,
              const std::optional<std::vector<std::int64_t>>& dims, std::int64_t outer_dims);

}  // namespace tt::eval
