#include "src/cli/run_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <utility>

#include "src/cli/exit_code.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/thread_stacks.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/record/copy_end.h"
#include "tensor_tracer/watchdog/flight_record.h"

namespace tt::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto kTimeForHub = std::chrono::milliseconds(500);
// The hub commits the recording every half second.
constexpr auto kTimeForRecording = std::chrono::milliseconds(600);
// A disk that hangs must not keep the ranks from ending.
constexpr auto kTimeToEnd = std::chrono::seconds(10);
constexpr std::uint64_t kRecordingBytes = std::uint64_t{4} << 20U;

// A launcher ends the other ranks, also a stopped one. Another way out would wait for MPI, which
// the step thread uses.
void end_process() { ::_exit(kExitWatchdog); }

void end_process_later() {
  std::thread([] {
    std::this_thread::sleep_for(kTimeToEnd);
    end_process();
  }).detach();
}

std::string run_dir_of(const control::HubSession& hub) {
  return fs::absolute(fs::path(hub.info().token_path).parent_path()).string();
}

}  // namespace

RunWatch::RunWatch(const WatchedRun& run, const comm::ProcessGroup& world,
                   const comm::CollectiveLog& collectives, control::HubSession* hub)
    : run_(run), collectives_(collectives), hub_(hub), places_(share_places(world)) {
  base::prepare_thread_stacks();
  watchdog_ = std::make_unique<watchdog::Watchdog>(options(world), collectives_);
}

RunWatch::Places RunWatch::share_places(const comm::ProcessGroup& world) const {
  nlohmann::json form;
  if (hub_ != nullptr) {
    const std::string run_dir = run_dir_of(*hub_);
    const std::string board = run_dir + "/.watchdog";
    const std::string recording = hub_->recording();
    form = {{"board", world.size() > 1 && watchdog::RankBoard::make(board) ? board : ""},
            {"record", watchdog::flight_record_folder(run_dir)},
            {"hub_log", run_dir + "/hub.log"},
            {"recording", recording.empty() ? "" : fs::absolute(recording).string()}};
  }
  std::string text = form.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  comm::broadcast_text(world, text, 0);
  form = nlohmann::json::parse(text);
  if (form.is_null()) return {};
  return {form["board"], form["record"], form["hub_log"], form["recording"]};
}

watchdog::WatchdogOptions RunWatch::options(const comm::ProcessGroup& world) {
  const auto seconds = [](double value) { return std::chrono::duration<double>(value); };
  const bool sees_board = watchdog::RankBoard::is_visible(places_.board);
  if (!places_.board.empty() && !comm::all_of(world, sees_board) &&
      run_.config.watchdog_timeout > 0) {
    run_.log.notice(
        "the run directory is not on all nodes, so the watchdog cannot name the rank that others "
        "wait for");
  }
  return {.folder = sees_board ? places_.board : "",
          .ranks = world.size(),
          .timeout = seconds(run_.config.watchdog_timeout),
          .first_timeout = seconds(run_.config.first_watchdog_timeout()),
          .name_of = [this](int rank) { return name_of(rank); },
          .record = [this](const auto& alarm, const auto& states,
                           bool is_reporter) { record(alarm, states, is_reporter); },
          .end = end_process};
}

nlohmann::json RunWatch::configuration() const {
  return {{"options", run_.given},
          {"mesh",
           {{"tensor", run_.shape.tensor},
            {"pipeline", run_.shape.pipeline},
            {"data", run_.shape.data}}},
          {"launcher", run_.launch.launcher},
          {"version", TT_VERSION}};
}

void RunWatch::notify_page() {
  const std::lock_guard lock(mutex_);
  tells_page_ = hub_ != nullptr;
}

void RunWatch::fail(const std::string& reason) {
  watchdog_->fail(name_of(run_.launch.rank) + ": " + reason);
  if (hub_ != nullptr) hub_->finish();
}

void RunWatch::end_by_launcher() {
  is_in_haste_ = true;
  watchdog_->leave();
}

void RunWatch::record(const watchdog::Alarm& alarm, const watchdog::RankStates& states,
                      bool is_reporter) {
  if (alarm.ends) {
    end_process_later();
    print(alarm, is_reporter);
  } else if (is_in_haste_ && is_reporter) {
    fmt::print(stderr, "tensor-tracer: {}\n", alarm.reason);
  }
  notify_hub(alarm);
  if (!places_.record.empty()) write(alarm, states, is_reporter);
}

void RunWatch::print(const watchdog::Alarm& alarm, bool is_reporter) const {
  if (!is_reporter) {
    const auto wait = watchdog::read_wait(collectives_);
    fmt::print(stderr, "tensor-tracer: rank {}: ended by the watchdog{}\n", run_.launch.rank,
               wait ? " in " + watchdog::describe(*wait) : "");
    return;
  }
  std::string remedy =
      "start the run again, from a checkpoint with --load (tensor-tracer supervise "
      "does it); --watchdog-timeout sets the limit, and 0 switches it off";
  if (!places_.record.empty()) remedy = "see " + places_.record + "; " + remedy;
  const base::Error error{"rank_missing", alarm.reason, "watchdog", std::move(remedy)};
  fmt::print(stderr, "tensor-tracer: {}\n", to_string(error));
}

void RunWatch::notify_hub(const watchdog::Alarm& alarm) {
  const std::lock_guard lock(mutex_);
  if (!tells_page_) return;
  hub_->client().send_event(
      "log", {{"level", "error"}, {"message", "the run has failed: " + alarm.reason}});
  // The step thread, which waits in a collective, will not do it.
  if (alarm.ends) hub_->client().finish(kTimeForHub);
}

void RunWatch::write(const watchdog::Alarm& alarm, const watchdog::RankStates& states,
                     bool is_reporter) const {
  auto failures = watchdog::write_flight_record({.folder = places_.record,
                                                 .alarm = alarm,
                                                 .configuration = configuration(),
                                                 .log_lines = run_.log.recent(),
                                                 .states = states,
                                                 .hub_log = is_reporter ? places_.hub_log : ""},
                                                collectives_);
  if (is_reporter && !is_in_haste_ && !places_.recording.empty()) {
    std::this_thread::sleep_for(kTimeForRecording);
    const auto copied = record::copy_end(places_.recording, places_.record + "/recording-end.ttrec",
                                         kRecordingBytes);
    if (!copied) failures.push_back(to_string(copied.error()));
  }
  for (const std::string& failure : failures)
    fmt::print(stderr, "tensor-tracer: rank {}: flight record: {}\n", run_.launch.rank, failure);
  if (is_reporter) fmt::print(stderr, "tensor-tracer: flight record: {}\n", places_.record);
}

}  // namespace tt::cli
