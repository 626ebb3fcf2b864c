#pragma once

#include <memory>
#include <utility>

#include "src/hub/http/history_load.h"
#include "src/hub/http/other_runs.h"
#include "src/hub/room/room.h"
#include "src/hub/socket/connection.h"
#include "tensor_tracer/hub/server.h"
#include "tensor_tracer/record/query_thread.h"

namespace tt::hub {

/// State that all connections of one server share. Thread: the hub's I/O thread only; `options`
/// any.
struct Context {
  Context(const ServerOptions& server_options, std::unique_ptr<Room> its_room)
      : options(server_options), owned_room(std::move(its_room)) {}

  const ServerOptions options;
  std::unique_ptr<record::Recorder> recorder;     // null: the run is not recorded
  std::unique_ptr<record::QueryThread> replayed;  // reads the recording that is replayed
  OtherRuns others;
  HistoryLoad history;
  const std::unique_ptr<Room> owned_room;
  Room& room = *owned_room;
  Host* host = owned_room.get();  // takes the clients' messages; outlives the connections
  FailureWindow auth_failures;
  const Clock::time_point started = Clock::now();
  Connections handshakes;  // HTTP, not yet a WebSocket
  Connections viewers;
  Connections workers;
  /// All or part of a worker's next message has arrived; outgoing messages may wait for it.
  bool input_waits = false;

  bool has_history() const { return recorder != nullptr || replayed != nullptr; }
  /// Runs `query` on the thread that reads the recording. REQUIRES: has_history().
  void read_history(record::QueryThread::Query query) {
    if (recorder)
      recorder->read(std::move(query));
    else
      replayed->post(std::move(query));
  }
};

}  // namespace tt::hub
