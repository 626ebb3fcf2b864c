#include "tensor_tracer/hub/server.h"

#include <spdlog/spdlog.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "src/hub/alarms/alarm_calls.h"
#include "src/hub/http/http_session.h"
#include "src/hub/legacy/legacy_gateway.h"
#include "src/hub/process/context.h"
#include "src/hub/process/replay.h"
#include "src/hub/room/run_facts.h"
#include "tensor_tracer/record/recording.h"

namespace tt::hub {
namespace {

using namespace std::chrono_literals;

constexpr auto kAwait = net::as_tuple(net::use_awaitable);
constexpr int kSendBuffer = 256 * 1024;
constexpr int kReceiveBuffer = 1024 * 1024;
constexpr auto kTick = 100ms;
// The two phases of the end after SIGTERM or SIGINT. With the last tick they take well under 2 s.
constexpr auto kDrainWorkers = 400ms;
constexpr auto kSayGoodbye = 1000ms;
// After SIGHUP (the run has ended) a viewer that still takes bytes gets all the rest.
constexpr auto kLongestGoodbye = 25s;
constexpr auto kPoll = 20ms;
constexpr auto kLogDraining = 500ms;

/// The state of the run from an earlier hub.
struct EarlierRun {
  nlohmann::json facts;
  std::vector<nlohmann::json> steps;
};

std::optional<EarlierRun> earlier_run(record::Recording& recording, const std::string& id) {
  for (const record::RunInfo& run : recording.runs()) {
    if (run.id != id || !check_facts(run.facts).ok()) continue;
    EarlierRun earlier{.facts = run.facts, .steps = {}};
    for (record::StepRow& row : recording.steps(run.run, 0, INT64_MAX, kMaxSteps))
      earlier.steps.push_back(std::move(row.params));
    return earlier;
  }
  return std::nullopt;
}

std::unique_ptr<AlarmCalls> start_calls(const AlarmSetup& setup) {
  const bool calls = setup.webhook || !setup.command.empty();
  return calls ? std::make_unique<AlarmCalls>(setup.webhook, setup.command, setup.command_log)
               : nullptr;
}

/// Accepts connections and ends them. Thread: the hub's I/O thread only.
class Server {
 public:
  Server(std::vector<base::ScopedFd> listeners, const ServerOptions& options)
      : alarm_calls_(start_calls(options.alarms)),
        spikes_(start_spikes(options.alarms)),
        context_(options,
                 std::make_unique<Room>(RoomOptions{.lease = options.lease,
                                                    .request_timeout = options.request_timeout,
                                                    .replay = options.replay.has_value(),
                                                    .queue = {},
                                                    .alarms = {.path = options.alarms.path,
                                                               .run_id = options.run_id,
                                                               .initial = options.alarms.initial,
                                                               .pause = options.alarms.pause,
                                                               .calls = alarm_calls_.get(),
                                                               .spikes = spikes_.get()}})),
        signals_(io_, SIGTERM, SIGINT, SIGHUP) {
    for (base::ScopedFd& listener : listeners) {
      const tcp protocol = local_endpoint(listener).value().protocol();
      acceptors_.emplace_back(io_, protocol, listener.release());
    }
    context_.host = &gateway_;
    for (const base::Error& failure : options.failures) context_.room.raise_alarm(failure);
  }
  /// Joins the threads that post to the I/O context, and releases what they were given.
  ~Server() {
    end_recording();
    spikes_.reset();
    if (finishing_.joinable()) finishing_.join();
    context_.replayed.reset();
    context_.others.close();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Opens the recording, and continues an earlier hub's recording of this run.
  base::Status open_recorder() {
    if (!context_.options.recorder) return {};
    record::RecorderOptions options = *context_.options.recorder;
    const std::string path = options.path;
    options.on_alarm = [this](const base::Error& error) {
      net::post(io_, [this, error] { context_.room.raise_alarm(error); });
    };
    base::Result<std::unique_ptr<record::Recorder>> opened =
        record::Recorder::open(std::move(options));
    if (!opened && context_.options.needs_recorder) return opened.error();
    if (!opened) {
      context_.room.go_without_recording(opened.error());
      return {};
    }
    context_.recorder = std::move(opened).value();
    context_.room.record_to(*context_.recorder, path);
    restore();
    return {};
  }

  /// Puts the recorded run in the place of the trainer.
  base::Status open_replay() {
    if (!context_.options.replay) return {};
    const ReplayOptions& replay = *context_.options.replay;
    auto recording = record::Recording::open(replay.path);
    if (!recording) return recording.error();
    auto runs = recording.value().runs();
    const auto run = std::find_if(runs.rbegin(), runs.rend(), [&](const record::RunInfo& info) {
      return replay.run_id.empty() || info.id == replay.run_id;
    });
    if (run == runs.rend()) {
      return base::invalid_argument(replay.path, replay.run_id.empty()
                                                     ? "this recording holds no run"
                                                     : "there is no run " + replay.run_id);
    }
    if (base::Status known = check_facts(run->facts); !known.ok())
      return damaged(replay.path, *run, known.error());
    context_.replayed = std::make_unique<record::QueryThread>(replay.path);
    replayer_ = std::make_unique<Replayer>(io_, context_.room, std::move(recording).value(), *run,
                                           replay.speed, replay.paused);
    replayer_->start();
    return {};
  }

  base::Status open_others() {
    const ServerOptions& options = context_.options;
    const std::string shown = replayer_ ? replayer_->run_id() : options.run_id;
    if (!options.runs_dir.empty()) context_.others.offer_folder(options.runs_dir, shown);
    return context_.others.open(options.compare);
  }

  void run(const std::function<void()>& on_ready) {
    for (tcp::acceptor& acceptor : acceptors_) net::co_spawn(io_, accept(acceptor), net::detached);
    net::co_spawn(io_, tick(), net::detached);
    net::co_spawn(io_, work(), net::detached);
    net::co_spawn(io_, watch_signals(), net::detached);
    on_ready();
    while (!io_.stopped()) attempt("handler_failed", [this] { io_.run(); });
  }

 private:
  /// Reads with the recorder's own reader: the recorder may have exclusive use of the file.
  void restore() {
    auto told = std::make_shared<std::promise<std::optional<EarlierRun>>>();
    auto earlier = told->get_future();
    context_.recorder->read(
        [id = context_.options.run_id, told = std::move(told)](record::Recording& recording) {
          told->set_value(earlier_run(recording, id));
        });
    try {
      if (const std::optional<EarlierRun> run = earlier.get())
        context_.room.restore(run->facts, run->steps);
    } catch (const std::future_error&) {  // NOLINT(bugprone-empty-catch): it could not be read
    }
  }

  std::unique_ptr<SpikeRecorder> start_spikes(const AlarmSetup& setup) {
    return setup.spike_steps == 0
               ? nullptr
               : std::make_unique<SpikeRecorder>(
                     setup.spike_steps, setup.spike_folder,
                     [this](const SpikeRecorder::Written& written) {
                       net::post(
                           io_, [this, written] { context_.room.report_spike(written); });
                     });
  }

  /// Starts now: the disk may need the time during which the connections end.
  void end_recording() {
    if (context_.recorder) {
      context_.room.end_recording();
      spdlog::info("recording_ends: the waiting records are written");
      finishing_ = std::thread([recorder = std::move(context_.recorder)] { recorder->finish(); });
    }
  }

  net::awaitable<void> sleep(std::chrono::milliseconds duration) {
    net::steady_timer timer(io_, duration);
    co_await timer.async_wait(kAwait);
  }

  net::awaitable<void> accept(tcp::acceptor& acceptor) {
    while (acceptor.is_open()) {
      auto [failure, socket] = co_await acceptor.async_accept(kAwait);
      if (failure == net::error::operation_aborted) co_return;
      if (failure) {
        // For example, no descriptor is free; later one will be.
        spdlog::warn("accept_failed: a connection could not be accepted: {}", failure.message());
        co_await sleep(kTick);
        continue;
      }
      attempt("serve_failed", [&, &peer = socket] { start_session(std::move(peer)); });
    }
  }

  // An error in one of these must not end the loop that calls it.
  void attempt(const char* failure, const std::function<void()>& work) {
    try {
      work();
    } catch (const std::exception& error) {
      ++context_.room.metrics().errors;
      spdlog::error("{}: {}", failure, error.what());
    }
  }

  void start_session(tcp::socket socket) {
    beast::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    // The kernel must not hold megabytes of stale records. The queues that drop the oldest records
    // must hold them: the viewer's queue on the way out, the trainer's queue on the way in.
    socket.set_option(net::socket_base::send_buffer_size(kSendBuffer), ignored);
    socket.set_option(net::socket_base::receive_buffer_size(kReceiveBuffer), ignored);
    if (context_.handshakes.size() >= context_.options.max_handshakes)
      context_.handshakes.kill_oldest();
    std::make_shared<HttpSession>(std::move(socket), context_)->start();
  }

  net::awaitable<void> tick() {
    while (true) {
      co_await sleep(kTick);
      attempt("tick_failed", [this] { context_.room.tick(Clock::now()); });
    }
  }

  // Another thread asks for this work by a write to a descriptor instead of a post. To post, it
  // would take the I/O context's lock; if the scheduler then lets that thread wait, the lock would
  // delay this thread.
  net::awaitable<void> work() {
    net::posix::stream_descriptor asked(io_, ::dup(work_asked_.get()));
    while (true) {
      auto [failure] = co_await asked.async_wait(asked.wait_read, kAwait);
      if (failure) co_return;
      eventfd_t count = 0;
      ::eventfd_read(work_asked_.get(), &count);
      attempt("work_failed", [this] { gateway_.work(); });
    }
  }

  std::size_t connections() const { return context_.workers.size() + context_.viewers.size(); }

  // A worker that ends well waits for the close frame, so the hub has read everything by then.
  net::awaitable<void> drain_workers() {
    const auto end = Clock::now() + kDrainWorkers;
    while (Clock::now() < end && context_.workers.size() > 0) co_await sleep(kPoll);
  }

  // Waits for the connections to end. A connection whose client takes nothing ends itself.
  net::awaitable<void> say_goodbye() {
    const auto begin = Clock::now();
    const auto end = [&] {
      return hurried_at_ ? std::max(begin, *hurried_at_) + kSayGoodbye : begin + kLongestGoodbye;
    };
    auto logged = begin;
    while (Clock::now() < end() && connections() > 0) {
      co_await sleep(kPoll);
      if (Clock::now() - logged >= kLogDraining) {
        // The log line is needed: the supervisor takes a hub that writes nothing to its files for
        // dead.
        spdlog::info("draining: {} connections still take what waits for them", connections());
        logged = Clock::now();
      }
    }
  }

  net::awaitable<void> watch_signals() {
    while (true) {
      const auto [failure, signal] = co_await signals_.async_wait(kAwait);
      if (failure) co_return;
      if (signal != SIGHUP && !hurried_at_) hurried_at_ = Clock::now();
      if (!std::exchange(ending_, true)) net::co_spawn(io_, shut_down(), net::detached);
    }
  }

  net::awaitable<void> shut_down() {
    spdlog::info("hub_ends: the hub ends: draining");
    for (tcp::acceptor& acceptor : acceptors_) acceptor.close();
    co_await drain_workers();
    end_recording();
    if (alarm_calls_) alarm_calls_->finish();
    const auto finish = [](Connection& connection) { connection.finish(); };
    context_.workers.for_each(finish);
    context_.viewers.for_each(finish);
    co_await say_goodbye();
    spdlog::info("goodbyes_said: {} connections are cut off", connections());
    io_.stop();  // remaining clients are cut off when the sockets close
  }

  const base::ScopedFd work_asked_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  const std::unique_ptr<AlarmCalls> alarm_calls_;  // null: no alarm calls anything
  std::unique_ptr<SpikeRecorder> spikes_;          // null: off
  Context context_;  // outlives the I/O context and so every connection
  LegacyGateway gateway_{context_.room, [this] { ::eventfd_write(work_asked_.get(), 1); }};
  net::io_context io_{1};
  std::vector<tcp::acceptor> acceptors_;  // their number does not change
  net::signal_set signals_;
  std::unique_ptr<Replayer> replayer_;
  bool ending_ = false;
  std::optional<Clock::time_point> hurried_at_;  // time of SIGTERM or SIGINT
  std::thread finishing_;                        // owns the recorder once the hub ends
};

}  // namespace

base::Status serve(std::vector<base::ScopedFd> listeners, const ServerOptions& options,
                   const std::function<void()>& on_ready) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    Server server(std::move(listeners), options);
    for (base::Status opened : {server.open_recorder(), server.open_replay(), server.open_others()})
      if (!opened.ok()) return opened;
    server.run(on_ready);
  } catch (const std::exception& error) {
    return base::Error{.code = "io_error",
                       .message = std::string("the hub cannot run: ") + error.what()};
  }
  return {};
}

}  // namespace tt::hub
