#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/hub/legacy/disturbances.h"
#include "src/hub/legacy/shown_records.h"
#include "src/hub/legacy/update_encoder.h"
#include "src/hub/room/room.h"

namespace tt::hub::dialect {

/// A viewer of a legacy dialect. For the room it is a viewer of the native protocol: it says hello,
/// takes the lease, sets plans and programs, subscribes, and gets records. Its own client gets only
/// texts of the dialect.
/// Thread: the hub's I/O thread only. Owner: the gateway; `room`, `client` and `encoder` outlive
/// it.
class LegacySession : public Client, public TextSource {
 public:
  /// Takes the place of `client` in the room. `ask_for_work`: see LegacyGateway.
  LegacySession(Room& room, Client& client, UpdateEncoder& encoder, Dialect dialect,
                std::function<void()> ask_for_work);

  /// Carries out the client's message of this type; if no trainer is connected, after one has
  /// connected.
  void run_training_step(nlohmann::json message);
  /// Takes the room's messages. Not to be called from within the room.
  void work();

  void wake() override;
  void close(std::string_view reason) override { client_.close(reason); }
  void close_after_sending(std::string_view reason) override {
    client_.close_after_sending(reason);
  }
  void close_for_violation(std::string_view reason) override {
    client_.close_for_violation(reason);
  }
  void tick(Clock::time_point now) override;
  bool is_native() const override { return false; }

  std::optional<SharedBytes> next() override;
  bool is_making() const override { return has_started_ && !records_.empty(); }

 private:
  using json = nlohmann::json;
  using OnAnswer = std::function<void(base::Result<json>)>;
  /// What one run_training_step has asked of the trainer.
  struct Step {
    std::size_t unanswered = 0;
    std::optional<base::Error> refused = {};  // the first refusal
  };

  base::Status watch(const json& message);
  bool holds_lease() const;
  bool takes_control();
  std::vector<protocol::TrainerRequest> missing_requests(
      const json& plan, const std::vector<Disturbance>& disturbances) const;
  void subscribe();
  void start();
  /// Sends a request to the room.
  std::uint64_t ask(std::string_view method, json params, OnAnswer on_answer = {});
  /// The answer to a request that the room itself answers.
  base::Result<json> call(std::string_view method, json params);
  void take_messages();
  void on_message(std::string_view text);
  void on_answer(const protocol::TrainerRequest& request, Step& step,
                 const base::Result<json>& outcome);
  void on_event(const protocol::Notification& event);
  void follow(const protocol::TrainerRequest& request, const json& result);
  void follow_plan(const json& plan);
  /// False if no record waits.
  bool take_records();

  Room& room_;
  Client& client_;
  UpdateEncoder& encoder_;
  const Dialect dialect_;
  const std::function<void()> ask_for_work_;

  std::string session_;
  RunState run_{0};  // as this viewer knows it
  json control_;
  ShownRecords shown_;
  json waiting_;                     // a message from before a trainer connected, or null
  std::optional<json> points_ = {};  // subscribed
  std::map<std::uint64_t, OnAnswer> on_answer_;  // by the request's id
  std::size_t unanswered_ = 0;                   // requests to the trainer
  std::uint64_t last_id_ = 0;
  std::deque<SharedBytes> records_;  // the rest of the message that was taken last
  std::uint64_t messages_ = 0;       // with records, taken
  bool has_started_ = false;         // the client has received `start`; updates follow
  bool is_awake_ = false;            // work() will come
  bool renews_lease_ = false;        // the next work() does
};

}  // namespace tt::hub::dialect
