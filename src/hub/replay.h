#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client.h"
#include "net.h"
#include "room.h"
#include "tensor_tracer/protocol/message.h"
#include "tensor_tracer/record/recording.h"

namespace tt::hub {

/// Stands in for the trainer of a recorded run: a worker of rank 0 inside the hub, that says what
/// the recording holds, at the recorded pace times `speed`, and can be paused, stepped and sought.
///
///     playing <-> paused; at the last step it pauses
///
/// Thread: the hub's I/O thread only. Owner: the server; it outlives no I/O context.
class Replayer : public Client {
 public:
  /// `room` outlives it. `run` is one of the recording's.
  Replayer(net::io_context& io, Room& room, record::Recording recording, record::RunInfo run,
           double speed, bool paused);
  ~Replayer() override;

  void start();

  void wake() override;
  void close(std::string_view) override {}
  void close_after_sending(std::string_view) override {}

 private:
  using json = nlohmann::json;

  void take_messages();
  void carry_out(const protocol::Request& request);
  base::Result<json> answer(const protocol::Request& request);
  base::Status seek(const json& params);
  base::Status set_speed(const json& params);
  base::Status step(const json& params);
  void set_paused(bool paused);
  /// Shows what a viewer of the live run saw then; the step of this index comes next.
  void jump_to(std::size_t next);
  void say(std::string text);
  void tell_state();
  void schedule();
  void play_next();
  void show_step(std::size_t index);
  void show_latest(std::size_t index);
  void send_frames(const std::vector<std::string>& frames);
  void show_program_events(std::uint64_t step);
  void show_programs(std::uint64_t step);
  std::uint64_t current_step() const;

  net::io_context& io_;
  Room& room_;
  record::Recording recording_;
  const record::RunInfo run_;
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> steps_;  // step, time in ns
  const std::vector<record::ProgramEvent> program_events_;            // by step
  const json first_programs_;  // in force before the first of them
  std::size_t next_ = 0;       // index of the step to show
  double speed_;
  bool paused_;
  bool woken_ = false;
  net::steady_timer timer_;
};

}  // namespace tt::hub
