#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/watchdog/rank_state.h"

namespace tt::watchdog {

/// The reason why all ranks write a flight record.
struct Alarm {
  std::string reason;          // for people
  int reporter = 0;            // the rank that found it
  bool ends = false;           // the watchdog ends the run; false: `reporter` ends it
  std::vector<int> live = {};  // ranks that can write their part
};

/// States of all ranks as small files in one folder that all ranks see. A rank that is stopped
/// leaves its last state. Thread: any.
class RankBoard {
 public:
  /// `folder` exists, except if it is on another node; then nothing is written and read.
  RankBoard(std::string folder, int rank);

  /// Makes the folder, empty. False: it cannot be made.
  static bool make(const std::string& folder);
  static bool is_visible(const std::string& folder);

  void publish(const RankState& state) const;
  /// The last state of each rank; nothing if it cannot be read.
  std::vector<std::optional<RankState>> read(int ranks) const;
  /// False if there is an alarm already.
  bool raise(const Alarm& alarm) const;
  std::optional<Alarm> alarm() const;
  /// Removes this rank's file, and the folder if it is the last one.
  void leave() const;

 private:
  std::string file_of(int rank) const;

  const std::string folder_;
  const int rank_;
};

}  // namespace tt::watchdog
