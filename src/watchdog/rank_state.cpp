#include "tensor_tracer/watchdog/rank_state.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tensor_tracer/base/ssh_command.h"

namespace tt::watchdog {
namespace {

using nlohmann::json;

json to_json(const RankWait& wait) {
  return {{"group", wait.group}, {"path", wait.path},         {"ranks", wait.ranks},
          {"peer", wait.peer},   {"sequence", wait.sequence}, {"operation", wait.operation},
          {"bytes", wait.bytes}, {"seconds", wait.seconds}};
}

RankWait parse_wait(const json& form) {
  return {.group = form.at("group"),
          .path = form.at("path"),
          .ranks = form.at("ranks"),
          .sequence = form.at("sequence"),
          .operation = form.at("operation"),
          .bytes = form.at("bytes"),
          .peer = form.at("peer"),
          .seconds = form.at("seconds")};
}

RankState parse_state(const json& form) {
  RankState state{.rank = form.at("rank"),
                  .host = form.at("host"),
                  .pid = form.at("pid"),
                  .beat = form.at("beat"),
                  .step = form.at("step"),
                  .work = form.at("work"),
                  .noticed = form.at("noticed"),
                  .recorded = form.at("recorded"),
                  .wait = {},
                  .calls = form.at("calls")};
  if (!form.at("wait").is_null()) state.wait = parse_wait(form.at("wait"));
  return state;
}

}  // namespace

std::optional<RankWait> read_wait(const comm::CollectiveLog& log) {
  const auto pending = log.wait();
  if (!pending) return std::nullopt;
  const comm::CollectiveCall& call = pending->call;
  const comm::RecordedGroup group = log.groups()[call.group];
  return RankWait{.group = group.name,
                  .path = group.path,
                  .ranks = group.ranks,
                  .sequence = call.sequence,
                  .operation = call.operation,
                  .bytes = call.bytes,
                  .peer = call.peer < 0 ? -1 : group.ranks[static_cast<std::size_t>(call.peer)],
                  .seconds = static_cast<double>(comm::steady_ns() - pending->since_ns) * 1e-9};
}

RankState read_state(const comm::CollectiveLog& log) {
  RankState state{.rank = log.rank(),
                  .host = base::whereabouts().host,
                  .pid = ::getpid(),
                  .step = log.step(),
                  .work = log.work(),
                  .wait = read_wait(log),
                  .calls = {}};
  for (const comm::RecordedGroup& group : log.groups()) state.calls[group.path] = group.calls;
  return state;
}

std::string to_json_text(const RankState& state) {
  return json{{"rank", state.rank},
              {"host", state.host},
              {"pid", state.pid},
              {"beat", state.beat},
              {"step", state.step},
              {"work", state.work},
              {"noticed", state.noticed},
              {"recorded", state.recorded},
              {"wait", state.wait ? to_json(*state.wait) : json()},
              {"calls", state.calls}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<RankState> parse_rank_state(const std::string& text) {
  try {
    return parse_state(json::parse(text));
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace tt::watchdog
