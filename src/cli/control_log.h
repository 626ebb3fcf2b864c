#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/cli/run_log.h"
#include "tensor_tracer/link/hub_client.h"
#include "tensor_tracer/trace/trace_sink.h"

namespace tt::cli {

/// Stands between the trainer and the hub's requests, and prints every change that a viewer made:
/// "paused by Ada after step 1969". A refused request and a moved parameter are not printed.
/// Thread: that of the trainer.
class ControlLog : public trace::ControlSource {
 public:
  /// Both outlive this object.
  ControlLog(link::HubClient& source, RunLog& log) : source_(source), log_(log) {}

  std::vector<trace::Request> poll() override;
  void wait(std::chrono::milliseconds limit) override { source_.wait(limit); }
  bool has_viewer() const override { return source_.has_viewer(); }
  trace::Demand demand() const override { return source_.demand(); }
  void answer(std::uint64_t id, nlohmann::json result) noexcept override;
  void refuse(std::uint64_t id, const base::Error& error) noexcept override;

 private:
  link::HubClient& source_;
  RunLog& log_;
  std::map<std::uint64_t, trace::Request> open_;  // requests without an answer
};

}  // namespace tt::cli
