#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tt::comm::detail {

#ifdef NDEBUG
inline constexpr bool kHashSequence = false;
#else
inline constexpr bool kHashSequence = true;
#endif

/// The collectives that one rank called on one group, as a count and a hash (FNV-1a). Empty in a
/// release build.
class Sequence {
 public:
  void record(std::string_view operation, std::size_t bytes, int dtype) {
    if constexpr (kHashSequence) {
      ++state_.calls;
      for (const char letter : operation) mix(static_cast<unsigned char>(letter));
      mix(bytes);
      mix(static_cast<std::uint64_t>(dtype));
    }
  }

  struct State {
    std::uint64_t calls = 0;
    std::uint64_t hash = 0xcbf29ce484222325;
    bool operator==(const State&) const = default;
  };
  const State& state() const { return state_; }

 private:
  void mix(std::uint64_t value) { state_.hash = (state_.hash ^ value) * 0x100000001b3; }
  State state_;
};

/// "ranks 0, 2 made 5 calls (hash 3f); rank 1 made 4 calls (hash 8a)", from the states of all
/// ranks.
std::string describe(std::span<const Sequence::State> states);

}  // namespace tt::comm::detail
