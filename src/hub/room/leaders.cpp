#include "src/hub/room/leaders.h"

#include <algorithm>
#include <utility>

#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::hub {
namespace {

// A leader that has only lost its connection comes back sooner.
constexpr auto kLongMissing = std::chrono::seconds(5);

}  // namespace

void Leaders::notify_trainer(std::string_view event, nlohmann::json params) const {
  if (trainer() != nullptr)
    trainer()->send(protocol::encode_notification(event, std::move(params)));
}

base::Status Leaders::check(const protocol::WorkerHello& hello) const {
  if (hello.stage.has_value() != hello.stages.has_value()) {
    return base::invalid_argument(hello.stage ? "stages" : "stage",
                                  "stage and stages come together");
  }
  const std::uint64_t rank = hello.rank.value_or(0);
  const std::uint64_t stage = hello.stage.value_or(0);
  const std::uint64_t stages = hello.stages.value_or(1);
  if (!hello.stage && rank != 0) return {};
  if (stage >= stages) return base::invalid_argument("stage", "must be less than stages");
  if ((stage == 0) != (rank == 0))
    return base::invalid_argument("rank", "rank 0, and no other, leads stage 0");
  if (stage == 0) return {};
  const bool stages_are_known = leaders_.front().rank || leaders_.size() > 1;
  if (stages_are_known && stages != leaders_.size()) {
    return base::invalid_argument("stages",
                                  "this run has " + std::to_string(leaders_.size()) + " stages");
  }
  const Leader* const known = stage < leaders_.size() ? &leaders_[stage] : nullptr;
  if (known != nullptr && known->client != nullptr && known->rank != rank) {
    return base::invalid_argument("stage", name_of(stage) + " has a leader that is connected",
                                  "give every stage one leader");
  }
  return {};
}

Client* Leaders::take(Client& client, const protocol::WorkerHello& hello, Clock::time_point now) {
  const std::size_t stage = hello.stage.value_or(0);
  leaders_.resize(hello.stages.value_or(1));
  if (stage == 0)
    for (Leader& leader : leaders_)
      leader.changed = leader.client == nullptr ? now : leader.changed;
  Leader& leader = leaders_[stage];
  const auto run_of = [](const nlohmann::json& facts) { return protocol::text_of(facts, "id"); };
  if (run_of(leader.facts) != run_of(hello.run)) leader.last_sequence = 0;
  leader.rank = hello.rank.value_or(0);
  leader.facts = {{"id", protocol::member(hello.run, "id")},
                  {"points", protocol::member(hello.run, "points")}};
  leader.changed = now;
  leader.reported_missing = false;
  return std::exchange(leader.client, &client);
}

std::optional<std::size_t> Leaders::stage_of(const Client& client) const {
  const auto found = std::ranges::find(leaders_, &client, &Leader::client);
  return found == leaders_.end()
             ? std::nullopt
             : std::optional(static_cast<std::size_t>(found - leaders_.begin()));
}

void Leaders::lose(std::size_t stage, Clock::time_point now) {
  leaders_[stage].client = nullptr;
  leaders_[stage].changed = now;
}

std::uint16_t Leaders::point_of_run(std::size_t stage, std::uint16_t number) const {
  const auto found = leaders_[stage].numbers.find(number);
  return found == leaders_[stage].numbers.end() ? number : found->second;
}

void Leaders::on_record(std::size_t stage, const protocol::RecordHeader& header) {
  Leader& leader = leaders_[stage];
  ++leader.records;
  if (leader.last_sequence > 0 && header.sequence > leader.last_sequence)
    leader.missed += header.sequence - leader.last_sequence - 1;
  leader.last_sequence = header.sequence;
}

nlohmann::json Leaders::describe() const {
  if (leaders_.size() == 1) return {};
  nlohmann::json parts = nlohmann::json::array();
  for (std::size_t stage = 0; stage < leaders_.size(); ++stage) {
    const Leader& leader = leaders_[stage];
    parts.push_back({{"stage", stage}, {"connected", leader.client != nullptr}});
    if (leader.rank) parts.back()["rank"] = *leader.rank;
  }
  return parts;
}

std::string Leaders::name_of(std::size_t stage) const {
  const std::optional<std::uint64_t>& rank = leaders_[stage].rank;
  return "stage " + std::to_string(stage) + " of " + std::to_string(leaders_.size()) +
         (rank ? " (rank " + std::to_string(*rank) + ")" : "");
}

std::optional<std::size_t> Leaders::missing() const {
  const auto found = std::ranges::find(leaders_, nullptr, &Leader::client);
  return found == leaders_.end()
             ? std::nullopt
             : std::optional(static_cast<std::size_t>(found - leaders_.begin()));
}

std::vector<std::size_t> Leaders::take_long_missing(Clock::time_point now) {
  std::vector<std::size_t> missing;
  for (std::size_t stage = 1; trainer() != nullptr && stage < leaders_.size(); ++stage) {
    Leader& leader = leaders_[stage];
    if (leader.client == nullptr && !leader.reported_missing &&
        now - leader.changed > kLongMissing) {
      leader.reported_missing = true;
      missing.push_back(stage);
    }
  }
  return missing;
}

}  // namespace tt::hub
