#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/watchdog/rank_state.h"

namespace tt::watchdog {

using RankStates = std::vector<std::optional<RankState>>;  // by global rank

/// A rank for which others wait and which waits for nobody itself.
struct MissingRank {
  int rank = 0;
  int waiter = 0;           // a rank that waits for it
  bool is_stopped = false;  // its process does not run; false: it does something else
  bool is_unknown = false;  // its state cannot be read
  bool is_excused = false;  // it does work that others wait for, or a debugger holds it
};

/// The reason why a rank waits.
struct Verdict {
  std::vector<MissingRank> missing;  // empty: ranks wait for each other
  std::vector<int> waiting;          // ranks that wait, directly or indirectly, for these
  std::vector<int> live;             // ranks whose processes run
  /// True: nobody is to blame, at least now.
  bool is_excused() const;
};

/// The beats of ranks that were excused because of their work, at the last verdict.
using ExcusedBeats = std::map<int, std::uint64_t>;

/// Follows the waits of `rank` to the ranks that wait for nobody. `before` and `after`: the states
/// at two times, more than a beat apart. A rank that was excused and has not moved since is not
/// excused again. REQUIRES: `after` has the state of `rank`, which waits.
Verdict find_missing(const RankStates& before, const RankStates& after, int rank,
                     const ExcusedBeats& excused);

/// One sentence for people. `name_of`: "rank 3 (tensor 1, data 1)".
std::string describe(const Verdict& verdict, const RankStates& states,
                     const std::function<std::string(int)>& name_of);

/// "all_reduce sum of 4096 bytes, number 512 of group tensor (ranks 2, 3)".
std::string describe(const RankWait& wait);

/// The state of the rank's process as /proc shows it: 'T' means stopped. 0 if the process has ended
/// or runs on another host.
char process_letter(const RankState& state);

/// True: the process of the rank has ended, as far as this host can see it.
bool has_ended(const RankState& state);
/// One sentence for people. `name`: of the rank. REQUIRES: has_ended(state).
std::string describe_end(const RankState& state, const std::string& name);

}  // namespace tt::watchdog
