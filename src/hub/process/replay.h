#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/hub/room/client.h"
#include "src/hub/room/room.h"
#include "src/hub/socket/net.h"
#include "tensor_tracer/protocol/message.h"
#include "tensor_tracer/protocol/request.h"
#include "tensor_tracer/record/recording.h"

namespace tt::hub {

/// Takes the place of the trainer for a recorded run. It acts as a worker of rank 0 inside the hub,
/// and sends the content of the recording at the recorded pace times `speed`. It can be paused,
/// stepped and moved to another step.
///
///     playing <-> paused; at the last step it pauses
///
/// Thread: the hub's I/O thread only. Owner: the server; the I/O context outlives it.
class Replayer : public Client {
 public:
  /// `room` outlives it. `run` is a run of the recording.
  Replayer(net::io_context& io, Room& room, record::Recording recording, record::RunInfo run,
           double speed, bool paused);
  ~Replayer() override;

  void start();
  const std::string& run_id() const { return run_.id; }

  void wake() override;
  void close(std::string_view) override {}
  void close_after_sending(std::string_view) override {}

 private:
  using json = nlohmann::json;

  struct Asked {
    std::uint64_t id = 0;
    protocol::TrainerRequest request;
  };

  void take_messages();
  void carry_out(const Asked& asked);
  base::Status obey(const protocol::TrainerRequest& request);
  /// Runs `show` and returns its status. If the recording cannot be read, informs all viewers,
  /// pauses, and returns that error.
  base::Status try_to(const std::function<base::Status()>& show);
  /// The index of the first step after `step`.
  std::size_t index_after(std::uint64_t step) const;
  void set_speed(double speed);
  void step(std::size_t count);
  void set_paused(bool paused);
  /// Shows the state that a viewer of the live run saw at that time. The step with index `next` is
  /// shown next.
  void jump_to(std::size_t next);
  void say(std::string text);
  void notify_state();
  void schedule();
  void start_timer();
  void play_next();
  void show_step(std::size_t index);
  void show_latest();
  void send_frames(const record::FrameQuery& query);
  void show_events(std::size_t index);
  /// The params of the event of this kind that states what is in force in that step.
  json in_force(const char* kind, std::uint64_t step);
  void show_prompts();
  void show_plan();
  void show_programs();
  void show_alarms();
  std::uint64_t step_before(std::size_t index) const;
  std::uint64_t current_step() const { return step_before(next_); }

  Room& room_;
  record::Recording recording_;
  const record::RunInfo run_;
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> steps_;  // step, time in ns
  const std::vector<record::TrainerEvent> events_;                    // by step
  const json first_;      // `plan`, `prompt_sets` and `programs` before the first event
  json plan_;             // last sent
  json prompt_sets_;      // last sent
  std::size_t next_ = 0;  // index of the step to show
  double speed_;
  bool paused_;
  net::steady_timer timer_;          // to the next step
  std::chrono::nanoseconds gap_{0};  // run time left to the next step, from `gap_since_` on
  Clock::time_point gap_since_;
  bool woken_ = false;
  net::steady_timer gathering_;  // collects requests
};

}  // namespace tt::hub
