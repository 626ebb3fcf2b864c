#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor_tracer/comm/collective_log.h"
#include "tensor_tracer/watchdog/missing_ranks.h"
#include "tensor_tracer/watchdog/rank_board.h"

namespace tt::watchdog {

/// One rank's part of a flight record. docs/operations.md describes the files.
struct FlightRecord {
  std::string folder;  // made if it does not exist
  Alarm alarm;
  nlohmann::json configuration;
  std::string log_lines;  // the last lines that this rank printed; empty: none
  RankStates states;      // of all ranks, if this rank has found the reason; else empty
  std::string hub_log;    // the file, if this rank copies its end; else empty
};

/// Writes the files. Each failure is one text; the other files are written nevertheless.
/// REQUIRES: base::prepare_thread_stacks() was called. Thread: any.
std::vector<std::string> write_flight_record(const FlightRecord& record,
                                             const comm::CollectiveLog& log);

/// "flight-record" in the run directory, or the first free name such as "flight-record-2".
std::string flight_record_folder(const std::string& run_dir);

}  // namespace tt::watchdog
