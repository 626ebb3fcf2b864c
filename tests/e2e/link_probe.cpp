// A stand-in for a trainer: starts a hub and a HubClient, then does what stdin says, one command a
// line, and answers each with one line of JSON. tests/e2e/test_link.py drives it.
//
//     link_probe <hub program> <run dir> <port> <queue bytes> <pause timeout ms>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>

#include "tensor_tracer/link/hub_client.h"
#include "tensor_tracer/link/hub_process.h"
#include "tensor_tracer/protocol/record.h"

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

void print(const json& line) { std::cout << line.dump() << std::endl; }

double since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string make_record(std::uint64_t sequence, std::size_t bytes) {
  tt::protocol::RecordHeader header;
  header.run = 0x5f0c;
  header.sequence = sequence;
  header.step = sequence;
  header.plan = 7;                                       // none that a test sets is newer
  header.dtype = static_cast<tt::protocol::Dtype>(200);  // unknown: any number of bytes fits
  header.ndim = 1;
  header.shape = {static_cast<std::uint32_t>(bytes), 1, 1, 1};
  const std::string payload(bytes, 'p');
  std::string out;
  tt::protocol::append_record(out, header,
                              std::as_bytes(std::span(payload.data(), payload.size())));
  return out;
}

// records <count> <bytes each>: sends them and tells the longest time that one call took.
void send_records(tt::link::HubClient& client, std::istream& in) {
  static std::uint64_t sequence = 0;
  std::size_t count = 0;
  std::size_t bytes = 0;
  in >> count >> bytes;
  double longest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::string record = make_record(++sequence, bytes);
    const auto start = Clock::now();
    client.send_records(std::move(record));
    longest = std::max(longest, since(start));
  }
  print({{"longest_ms", longest}, {"dropped", client.dropped_records()}});
}

// wait <ms>: waits and polls; answers every request, "control.step" with a refusal.
void wait_and_poll(tt::link::HubClient& client, std::istream& in) {
  int limit = 0;
  in >> limit;
  const auto start = Clock::now();
  client.wait(std::chrono::milliseconds(limit));
  const double waited = since(start);
  json requests = json::array();
  for (const auto& request : client.poll()) {
    requests.push_back({{"id", request.id},
                        {"method", tt::protocol::row_of(request.body).method},
                        {"params", tt::protocol::params_of(request.body)}});
    if (std::holds_alternative<tt::protocol::StepRun>(request.body))
      client.refuse(request.id, {"invalid_argument", "not now", "count", ""});
    else if (request.id != 0)
      client.answer(request.id, {{"step", 12}, {"ranks", 2}});
  }
  print({{"requests", requests}, {"waited_ms", waited}});
}

bool obey(const std::string& line, tt::link::HubClient& client, tt::base::ScopedFd& alive) {
  std::istringstream in(line);
  std::string command;
  in >> command;
  if (command == "records") {
    send_records(client, in);
  } else if (command == "wait") {
    wait_and_poll(client, in);
  } else if (command == "event") {
    std::string event;
    std::string params;
    in >> event;
    std::getline(in, params);
    client.send_event(event, json::parse(params));
    print({{"sent", event}});
  } else if (command == "viewer") {
    print({{"has_viewer", client.has_viewer()}});
  } else if (command == "end_run") {
    alive.reset();
    print({{"ended", true}});
  } else if (command == "finish") {
    const auto start = Clock::now();
    client.finish();
    print({{"took_ms", since(start)}});
    return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: link_probe HUB RUN_DIR PORT QUEUE_BYTES PAUSE_TIMEOUT_MS\n");
    return 2;
  }
  spdlog::set_default_logger(spdlog::stderr_logger_mt("probe"));
  tt::config::HubConfig config;
  config.run_id = "5f0c00000000abcd";
  config.port = std::stoi(argv[3]);
  auto hub = tt::link::start_hub({.program = argv[1], .run_dir = argv[2], .config = config});
  if (!hub) {
    const auto& error = hub.error();
    print({{"error",
            {{"code", error.code},
             {"message", error.message},
             {"where", error.where},
             {"remedy", error.remedy}}}});
    return 1;
  }
  tt::link::HubInfo& info = hub.value();
  print({{"url", info.url}, {"port", info.port}, {"open", info.open_path}});
  tt::link::HubClient client({.port = info.port,
                              .worker_token = info.worker_token,
                              .run = {{"id", "5f0c00000000abcd"}, {"plan", {{"number", 1}}}},
                              .queue_bytes = std::stoul(argv[4]),
                              .pause_timeout = std::chrono::milliseconds(std::stoi(argv[5]))});
  std::string line;
  while (std::getline(std::cin, line) && obey(line, client, info.alive)) {
  }
  return 0;
}
