#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/trace/trace_sink.h"

namespace tt::link {

/// One WebSocket message to the hub.
struct Outgoing {
  bool text = false;
  std::string bytes = {};
  bool is_data = false;    // records, and events as frequent as records; dropped before other texts
  bool is_answer = false;  // to the hub of this connection, under the hub's id
};

/// Connects the thread that runs the step with the thread that does the I/O. Holds the bounded
/// queue of messages to the hub, the requests from the hub, and the state of the contact. No call
/// waits for the network.
/// Thread: any; guarded by mutex_.
class Channel {
 public:
  using Clock = std::chrono::steady_clock;

  Channel(std::size_t max_bytes, std::chrono::milliseconds pause_timeout)
      : max_bytes_(max_bytes), pause_timeout_(pause_timeout), lost_at_(Clock::now()) {}

  // The step's side.
  void push_records(std::string records);
  void push_text(std::string text);
  /// Queues an event as frequent as records: it waits with the records and is dropped as they are.
  void push_data(std::string text);
  /// Queues `text` as the answer that the hub expects under `encode(id)`. If the connection of the
  /// request has ended since then, drops the answer.
  template <typename Encode>
  void push_answer(std::uint64_t id, Encode encode) {
    const std::lock_guard lock(mutex_);
    const auto asked = asked_.extract(id);
    if (!asked.empty() && connected_) push_answer_locked(encode(asked.mapped()));
  }
  /// The requests that have arrived. Once contact has been lost for the pause time-out, adds two
  /// requests with the id 0 in the hub's place: they revert the programs without `keep` and end a
  /// pause.
  std::vector<trace::Request> poll(Clock::time_point now);
  void wait(Clock::time_point until);
  bool has_viewer() const { return viewers_.load(std::memory_order_relaxed) > 0; }
  /// The entries whose records viewers or the hub take. Without contact to the hub: the entries of
  /// the last contact if the hub itself took records, otherwise no entries.
  trace::Demand demand() const;
  /// Waits until everything is written. Returns false if nothing was written for `idle`, or after
  /// `longest`.
  bool wait_until_written(std::chrono::milliseconds idle, std::chrono::milliseconds longest);
  std::uint64_t dropped() const;
  std::size_t waiting_bytes() const;

  /// What viewers have changed at the hub itself since the last call, in words.
  std::vector<std::string> take_notices();

  // The checker's side.
  /// From now on requests that need no lease go to take_check().
  void expect_checks();
  /// Waits for the next such request; nothing after end_checks().
  std::optional<trace::Request> take_check();
  void end_checks();

  // The I/O side.
  void set_connected();
  void set_lost(Clock::time_point now);
  /// `viewers` watch; `wanted`: the hub itself takes traced records. Together they take `demand`.
  void set_demand(std::uint64_t viewers, bool wanted, trace::Demand demand);
  /// A notice is dropped if 64 wait.
  void add_notice(std::string notice);
  /// Takes a request of the hub, under the hub's id. It goes to the step, or to the checker if it
  /// needs no lease.
  void deliver(trace::Request request);
  /// Answers a request of the hub that is not delivered.
  void refuse(std::uint64_t hub_id, const base::Error& error);
  /// The next message to write. It counts as unwritten until written() or give_back().
  std::optional<Outgoing> take();
  void written();
  void give_back(Outgoing message);

 private:
  void push_text_locked(Outgoing text);
  void push_answer_locked(std::string text) {
    push_text_locked({.text = true, .bytes = std::move(text), .is_answer = true});
  }
  void push_data_locked(Outgoing data);
  std::optional<Outgoing> notice_of_drops();
  Outgoing pop(std::deque<Outgoing>& from);
  void deliver_check(trace::Request request);
  void make_room();
  bool must_let_go(Clock::time_point now) const;

  const std::size_t max_bytes_;
  const std::chrono::milliseconds pause_timeout_;
  std::atomic<std::uint64_t> viewers_ = 0;

  // Guarded by mutex_.
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable written_;
  std::deque<Outgoing> texts_;
  std::deque<Outgoing> data_;
  std::size_t bytes_ = 0;
  bool in_flight_ = false;
  std::uint64_t writes_ = 0;   // calls of written()
  std::uint64_t dropped_ = 0;  // records
  std::uint64_t told_dropped_ = 0;
  std::uint64_t untold_events_ = 0;  // dropped texts
  std::vector<trace::Request> arrived_requests_;
  std::condition_variable check_arrived_;
  std::deque<trace::Request> arrived_checks_;
  bool expects_checks_ = false;
  std::map<std::uint64_t, std::uint64_t> asked_;  // our id of a request -> the hub's
  std::uint64_t last_id_ = 0;
  std::vector<std::string> notices_;
  bool wanted_ = false;
  trace::Demand demand_;
  bool connected_ = false;
  bool let_go_told_ = false;  // true once reported, since contact was lost
  Clock::time_point lost_at_;
};

}  // namespace tt::link
