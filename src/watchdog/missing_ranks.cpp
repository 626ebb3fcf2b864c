#include "tensor_tracer/watchdog/missing_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <set>
#include <sstream>

#include "tensor_tracer/base/ssh_command.h"

namespace tt::watchdog {
namespace {

const RankState* state_of(const RankStates& states, int rank) {
  const auto& state = states[static_cast<std::size_t>(rank)];
  return state ? &*state : nullptr;
}

bool is_live(const RankStates& before, const RankStates& after, int rank) {
  const RankState* const then = state_of(before, rank);
  const RankState* const now = state_of(after, rank);
  return now != nullptr && (then == nullptr || now->beat != then->beat);
}

/// A rank that has not begun the operation for which another rank waits.
bool is_behind(const RankState* state, const RankWait& wait) {
  if (state == nullptr || wait.peer >= 0) return true;
  const auto calls = state->calls.find(wait.path);
  return calls == state->calls.end() || calls->second < wait.sequence;
}

bool is_debugged(const RankState& state) { return process_letter(state) == 't'; }

bool is_excused_rank(const RankState* state, bool is_stopped, const ExcusedBeats& excused) {
  if (state == nullptr) return false;
  if (is_debugged(*state)) return true;
  if (state->work.empty()) return false;
  const auto last = excused.find(state->rank);
  return !is_stopped || last == excused.end() || last->second != state->beat;
}

std::vector<int> waited_for(const RankWait& wait) {
  return wait.peer >= 0 ? std::vector<int>{wait.peer} : wait.ranks;
}

std::string condition_of(const MissingRank& missing, const RankState* state) {
  if (state == nullptr) return fmt::format("the state of rank {} cannot be read", missing.rank);
  const std::string process =
      fmt::format("process {} of rank {} on {}", state->pid, missing.rank, state->host);
  if (!missing.is_stopped) return process + " runs, but is not in a collective";
  const char letter = process_letter(*state);
  if (letter == 'T') return process + " is stopped (SIGSTOP)";
  if (has_ended(*state)) return process + " has ended";
  return process + " does not run";
}

}  // namespace

bool Verdict::is_excused() const {
  return !missing.empty() && std::ranges::all_of(missing, &MissingRank::is_excused);
}

char process_letter(const RankState& state) {
  if (state.host != base::whereabouts().host) return 0;
  std::ifstream file(fmt::format("/proc/{}/stat", state.pid));
  std::ostringstream text;
  text << file.rdbuf();
  const std::string line = text.str();
  const std::size_t name_end = line.rfind(')');
  return name_end != std::string::npos && name_end + 2 < line.size() ? line[name_end + 2] : '\0';
}

bool has_ended(const RankState& state) {
  const char letter = process_letter(state);
  return state.host == base::whereabouts().host && (letter == 0 || letter == 'Z');
}

std::string describe_end(const RankState& state, const std::string& name) {
  return fmt::format("{} has died in step {}: its process {} on {} was killed or has crashed", name,
                     state.step, state.pid, state.host);
}

Verdict find_missing(const RankStates& before, const RankStates& after, int rank,
                     const ExcusedBeats& excused) {
  Verdict verdict;
  for (int one = 0; one < static_cast<int>(after.size()); ++one)
    if (is_live(before, after, one)) verdict.live.push_back(one);
  std::set<int> seen = {rank};
  std::deque<int> open = {rank};
  while (!open.empty()) {
    const int waiter = open.front();
    open.pop_front();
    verdict.waiting.push_back(waiter);
    const RankWait& wait = *state_of(after, waiter)->wait;
    for (const int other : waited_for(wait)) {
      const RankState* const state = state_of(after, other);
      const bool is_stopped = !is_live(before, after, other);
      if (seen.contains(other) || (!is_stopped && !is_behind(state, wait))) continue;
      seen.insert(other);
      if (!is_stopped && state->wait)
        open.push_back(other);
      else
        verdict.missing.push_back({.rank = other,
                                   .waiter = waiter,
                                   .is_stopped = is_stopped,
                                   .is_unknown = state == nullptr,
                                   .is_excused = is_excused_rank(state, is_stopped, excused)});
    }
  }
  return verdict;
}

std::string describe(const RankWait& wait) {
  const std::string number =
      wait.sequence > 0 ? fmt::format(", number {} of", wait.sequence) : std::string(" in");
  return fmt::format("{} of {} bytes{} group {} (ranks {})", wait.operation, wait.bytes, number,
                     wait.group, fmt::join(wait.ranks, ", "));
}

std::string describe(const Verdict& verdict, const RankStates& states,
                     const std::function<std::string(int)>& name_of) {
  std::string text;
  const auto add_wait = [&](int waiter) {
    const RankState& state = *state_of(states, waiter);
    text += fmt::format("{}, in step {}; rank {} has waited for {:.1f} s", describe(*state.wait),
                        state.step, waiter, state.wait->seconds);
  };
  for (const MissingRank& missing : verdict.missing) {
    if (missing.is_excused) continue;
    text += (text.empty() ? "" : "; ") + name_of(missing.rank) + " did not arrive at ";
    add_wait(missing.waiter);
    text += "; " + condition_of(missing, state_of(states, missing.rank));
  }
  if (!text.empty()) return text;
  text = "ranks wait for each other in different collectives: ";
  for (const int waiter : verdict.waiting) {
    text += waiter == verdict.waiting.front() ? "" : "; ";
    add_wait(waiter);
  }
  return text;
}

}  // namespace tt::watchdog
