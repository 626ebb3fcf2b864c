#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/protocol/record.h"
#include "tensor_tracer/train/trainer.h"

/// A training run of a tiny model on ranks that are threads.
namespace tt::train {

inline constexpr std::int64_t kSteps = 8;

config::TrainConfig tiny_config(mesh::MeshShape shape);

/// The hub's side of global rank 0: requests[i] arrive at the i-th poll; records are kept.
class Script : public trace::ControlSource, public trace::TraceSink {
 public:
  using Record = std::pair<protocol::RecordHeader, std::vector<float>>;

  std::deque<std::vector<trace::Request>> requests;
  std::vector<std::pair<std::uint64_t, nlohmann::json>> answers;
  std::vector<std::pair<std::uint64_t, base::Error>> refusals;
  std::vector<std::pair<std::string, nlohmann::json>> events;
  std::vector<Record> records;
  trace::Demand wanted;

  std::vector<trace::Request> poll() override;
  void wait(std::chrono::milliseconds) override {}
  bool has_viewer() const override { return true; }
  trace::Demand demand() const override { return wanted; }
  void answer(std::uint64_t id, nlohmann::json result) noexcept override {
    answers.emplace_back(id, std::move(result));
  }
  void refuse(std::uint64_t id, const base::Error& error) noexcept override {
    refusals.emplace_back(id, error);
  }
  void send_records(std::string sent) noexcept override;
  void send_event(std::string_view event, nlohmann::json params) noexcept override {
    events.emplace_back(event, std::move(params));
  }
};

/// The records of a message, with their payloads as float32.
std::vector<Script::Record> records_of(const std::string& message);

/// What one rank saw: a report of each step, and the TrainError that ended the run.
struct RankResult {
  std::vector<StepReport> reports;
  std::string train_error;
  std::optional<bool> is_persistent;  // of a NonFiniteError
};

/// Changes what one rank's trainer is given.
using Customise = std::function<void(TrainerParts&, int rank)>;

std::vector<RankResult> train(
    const config::TrainConfig& config, mesh::MeshShape shape, Script* script = nullptr,
    const Customise& customise = [](TrainerParts&, int) {});

}  // namespace tt::train
