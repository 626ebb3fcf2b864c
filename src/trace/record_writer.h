#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/trace/forward_buffer.h"
#include "src/trace/kept_tokens.h"
#include "tensor_tracer/trace/plan.h"
#include "tensor_tracer/trace/tracer.h"

namespace tt::trace {

/// Makes wire records from a leader's gathered slots and numbers them. Memory is kept between
/// records. Thread: the thread that runs the step.
class RecordWriter {
 public:
  /// `context` outlives the writer.
  RecordWriter(const PlanContext& context, const TracerIdentity& identity)
      : context_(context), identity_(identity) {}

  /// Appends the record of one complete slot, from the numbers that a device joined, or if `joined`
  /// is null from the parts. Throws the exceptions of the compressor; then nothing is appended and
  /// no number is used.
  void append(std::string& message, const Plan& plan, const ForwardScope& scope, const Slot& slot,
              const std::vector<const std::byte*>& parts, const std::byte* joined);

 private:
  protocol::RecordHeader header_for(const Plan& plan, const ForwardScope& scope, const Slot& slot,
                                    const std::vector<std::int64_t>& shape);
  void append_kept(std::string& message, const Plan& plan, const ForwardScope& scope,
                   const Slot& slot);
  KeptTokens& kept_of(const PlanEntry& entry, int layer);

  const PlanContext& context_;
  const TracerIdentity identity_;
  std::uint64_t sequence_ = 0;
  std::vector<double> numbers_;
  std::map<std::string, KeptTokens> kept_;  // by what is kept; also of earlier plans
  std::vector<std::byte> payload_;
};

}  // namespace tt::trace
