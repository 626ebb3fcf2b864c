#include "tensor_tracer/watchdog/watchdog.h"

#include <algorithm>
#include <utility>

#include "tensor_tracer/base/thread.h"

namespace tt::watchdog {
namespace {

using namespace std::chrono_literals;

constexpr auto kTick = 250ms;
constexpr std::uint64_t kTicksPerBeat = 2;
constexpr auto kPoll = 50ms;
// A rank that has noticed the same leaves the report to the lowest rank for this time.
constexpr auto kCourtesy = 1000ms;
constexpr auto kRecordTime = 3000ms;
constexpr auto kFailTime = 2000ms;

}  // namespace

Watchdog::Watchdog(WatchdogOptions options, const comm::CollectiveLog& log)
    : options_(std::move(options)), log_(log), board_(options_.folder, log.rank()) {
  if (options_.ranks == 1) return;  // it waits for nobody
  publish();
  thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  ending_.notify_all();
  if (thread_.joinable()) thread_.join();
  leave_board();
}

void Watchdog::publish() {
  const RankState state = own_state();
  const std::lock_guard lock(publish_mutex_);
  if (!has_left_) board_.publish(state);
}

bool Watchdog::sleep(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !ending_.wait_for(lock, time, [this] { return is_over_; });
}

void Watchdog::run() {
  base::set_thread_name("tt-watchdog");
  base::reset_affinity();
  for (std::uint64_t tick = 1; sleep(kTick); ++tick) {
    if (tick % kTicksPerBeat == 0) {
      publish();
      if (const auto alarm = board_.alarm()) follow(*alarm);
    }
    if (!has_recorded_) check();
  }
}

void Watchdog::check() {
  if (Clock::now() >= excused_until_ && waits_too_long()) investigate();
}

bool Watchdog::waits_too_long() const {
  const auto limit = log_.has_ended_a_step() ? options_.timeout : options_.first_timeout;
  if (limit.count() <= 0) return false;
  const auto wait = log_.wait();
  return wait && std::chrono::nanoseconds(comm::steady_ns() - wait->since_ns) > limit;
}

RankState Watchdog::own_state() {
  RankState state = read_state(log_);
  state.beat = ++beat_;
  state.noticed = has_noticed_;
  state.recorded = has_recorded_;
  return state;
}

RankStates Watchdog::read_states() {
  RankStates states = board_.read(options_.ranks);
  states[static_cast<std::size_t>(log_.rank())] = own_state();
  return states;
}

void Watchdog::investigate() {
  const auto wait = log_.wait();
  if (!wait) return;
  has_noticed_ = true;
  publish();
  const RankStates before = read_states();
  for (auto left = kGrace; left > 0ms; left -= kTick) {
    if (!sleep(std::min(left, std::chrono::milliseconds(kTick))) || board_.alarm()) return;
    publish();
  }
  const RankStates after = read_states();
  const auto now = log_.wait();
  if (!now || now->call.number != wait->call.number ||
      !after[static_cast<std::size_t>(log_.rank())]->wait) {
    has_noticed_ = false;
    return;
  }
  const Verdict verdict = find_missing(before, after, log_.rank(), excused_);
  if (!verdict.is_excused()) {
    accuse(verdict, after);
    return;
  }
  has_noticed_ = false;
  excused_until_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(options_.timeout);
  for (const MissingRank& one : verdict.missing)
    if (const auto& state = after[static_cast<std::size_t>(one.rank)])
      excused_[one.rank] = state->beat;
}

// The lowest rank that has noticed it reports; the others follow its alarm.
void Watchdog::accuse(const Verdict& verdict, const RankStates& states) {
  const bool has_lower = std::ranges::any_of(verdict.live, [&](int rank) {
    return rank < log_.rank() && states[static_cast<std::size_t>(rank)]->noticed;
  });
  for (auto left = kCourtesy; has_lower && left > 0ms && !board_.alarm(); left -= kPoll)
    if (!sleep(kPoll)) return;
  const Alarm alarm{.reason = describe(verdict, states, options_.name_of),
                    .reporter = log_.rank(),
                    .ends = true,
                    .live = verdict.live};
  if (board_.raise(alarm)) {
    record(alarm, true, states);
    wait_for_records(alarm, kRecordTime);
    options_.end();
  } else if (const auto other = board_.alarm()) {
    follow(*other);
  }
}

void Watchdog::follow(const Alarm& alarm) {
  record(alarm, false, {});
  if (!alarm.ends) return;
  wait_for_records(alarm, kRecordTime);
  options_.end();
}

void Watchdog::record(const Alarm& alarm, bool is_reporter, const RankStates& states) {
  const std::lock_guard lock(record_mutex_);
  if (has_recorded_) return;
  options_.record(alarm, states, is_reporter);
  has_recorded_ = true;
  publish();
}

void Watchdog::wait_for_records(const Alarm& alarm, std::chrono::milliseconds limit) {
  const auto has_recorded = [&](const RankStates& states) {
    return std::ranges::all_of(alarm.live, [&](int rank) {
      const auto& state = states[static_cast<std::size_t>(rank)];
      return state && state->recorded;
    });
  };
  const auto end = Clock::now() + limit;
  while (!has_recorded(read_states()) && Clock::now() < end) std::this_thread::sleep_for(kPoll);
}

void Watchdog::fail(const std::string& reason) {
  Alarm alarm{.reason = reason, .reporter = log_.rank(), .ends = false, .live = {}};
  for (int rank = 0; rank < options_.ranks; ++rank) alarm.live.push_back(rank);
  const bool is_reporter = board_.raise(alarm);
  record(alarm, is_reporter, is_reporter ? read_states() : RankStates());
  if (options_.ranks > 1) wait_for_records(alarm, kFailTime);
}

std::optional<Alarm> Watchdog::find_death(const RankStates& states) const {
  Alarm alarm{.reason = "", .reporter = log_.rank(), .ends = false, .live = {}};
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const auto& state = states[static_cast<std::size_t>(rank)];
    if (state && !has_ended(*state)) alarm.live.push_back(rank);
    if (state && has_ended(*state) && alarm.reason.empty())
      alarm.reason = describe_end(*state, options_.name_of(rank));
  }
  return alarm.reason.empty() ? std::nullopt : std::optional(alarm);
}

void Watchdog::leave() {
  if (options_.ranks == 1) return;
  const RankStates states = read_states();
  if (const auto alarm = find_death(states)) {
    const bool is_reporter = board_.raise(*alarm);
    record(*alarm, is_reporter, is_reporter ? states : RankStates());
  }
  leave_board();
}

void Watchdog::leave_board() {
  const std::lock_guard lock(publish_mutex_);
  has_left_ = true;
  if (!has_recorded_) board_.leave();
}

}  // namespace tt::watchdog
