#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/hub/room/room.h"

/// A room without sockets, for tests of what it says to whom. Thread: the test's.
namespace tt::hub {

/// Keeps what it is told. Owner: the test; the room must not outlive it.
class FakeClient : public Client {
 public:
  FakeClient(Role role, Room& room) : Client(role, room.make_queue()) {}
  void wake() override {}
  void close(std::string_view reason) override { closed = reason; }
  void close_after_sending(std::string_view reason) override { closed = reason; }

  /// All texts that wait, parsed; the records beside them are counted.
  std::vector<nlohmann::json> texts() {
    std::vector<nlohmann::json> out;
    for (Outgoing next = queue().pop(); !next.empty(); next = queue().pop())
      if (next.text)
        out.push_back(nlohmann::json::parse(*next.parts.front()));
      else
        records += next.parts.size();
    return out;
  }

  std::string closed;
  std::size_t records = 0;
};

/// `now_` is the time of all that is said.
class RoomTest : public testing::Test {
 protected:
  explicit RoomTest(RoomOptions options = {}) : room_(with_small_limits(std::move(options))) {}

  static RoomOptions with_small_limits(RoomOptions options) {
    options.request_timeout = std::chrono::seconds(60);
    options.latest_bytes = 1000;
    options.queue = {.total_bytes = 4000, .fresh_bytes = 300, .batch_bytes = 300};
    return options;
  }
  std::unique_ptr<FakeClient> join(Role role) {
    auto client = std::make_unique<FakeClient>(role, room_);
    room_.join(*client, now_);
    return client;
  }
  std::unique_ptr<FakeClient> greeted(Role role) {
    auto client = join(role);
    const char* name = role == Role::kViewer ? "viewer" : "worker";
    nlohmann::json params = {{"versions", {1}}, {"role", name}};
    if (role == Role::kWorker) params["run"] = facts_;
    say(*client, {{"id", 1}, {"method", "hello"}, {"params", params}});
    client->texts();
    return client;
  }
  void say(Client& client, const nlohmann::json& message) {
    room_.on_text(client, message.dump(), now_);
  }
  nlohmann::json ask(FakeClient& client, const std::string& method,
                     const nlohmann::json& params = nlohmann::json::object()) {
    client.texts();
    say(client, {{"id", 2}, {"method", method}, {"params", params}});
    const auto texts = client.texts();
    return texts.empty() ? nlohmann::json() : texts.back();
  }

  const Clock::time_point start_ = Clock::now();
  Clock::time_point now_ = start_;
  nlohmann::json facts_ = {{"id", "1"}};  // of workers
  Room room_;
};

}  // namespace tt::hub
