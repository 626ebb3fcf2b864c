#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tensor_tracer/trace/trace_sink.h"

namespace tt::trace {

/// Keeps the records of a pass whose records travel in an answer, and the messages of its tracer.
class KeptRecords : public TraceSink {
 public:
  /// Limit for the records of one pass. The records of two passes in Base64 fit into a worker's
  /// message.
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20U;

  void send_records(std::string records) noexcept override { records_ += records; }
  void send_event(std::string_view event, nlohmann::json params) noexcept override {
    if (event == "log") notes_.push_back(params.value("message", ""));
  }
  std::string take() { return std::exchange(records_, {}); }
  /// Messages about entries that failed.
  const nlohmann::json& notes() const { return notes_; }

 private:
  std::string records_;
  nlohmann::json notes_ = nlohmann::json::array();
};

}  // namespace tt::trace
