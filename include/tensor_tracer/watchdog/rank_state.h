#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/comm/collective_log.h"

namespace tt::watchdog {

/// The collective for which a rank waits.
struct RankWait {
  std::string group = {};       // RecordedGroup::name
  std::string path = {};        // RecordedGroup::path
  std::vector<int> ranks = {};  // global ranks of the group
  std::uint64_t sequence = 0;   // of the group; 0: send or receive
  std::string operation = {};
  std::uint64_t bytes = 0;
  int peer = -1;  // global rank of the other side of a send or receive; -1: none
  double seconds = 0.0;
};

/// What a rank tells the other ranks about itself.
struct RankState {
  int rank = 0;
  std::string host = {};
  int pid = 0;
  std::uint64_t beat = 0;  // grows while the process runs
  std::int64_t step = 0;   // 0: before the first step
  std::string work = {};   // comm::SoloWork; empty: none
  bool noticed = false;    // it has waited longer than the limit
  bool recorded = false;   // its part of the flight record is written
  std::optional<RankWait> wait = {};
  /// Collectives that it has begun, by path of the group.
  std::map<std::string, std::uint64_t> calls = {};
};

/// The wait of a log; nothing if the rank does not wait.
std::optional<RankWait> read_wait(const comm::CollectiveLog& log);
/// The state of the calling process; the caller sets `beat`, `noticed` and `recorded`.
RankState read_state(const comm::CollectiveLog& log);

std::string to_json_text(const RankState& state);
/// Nothing if the text has another form, for example because it was not written to its end.
std::optional<RankState> parse_rank_state(const std::string& text);

}  // namespace tt::watchdog
