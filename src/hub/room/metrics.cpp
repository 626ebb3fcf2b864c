#include "src/hub/room/metrics.h"

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>

#include "tensor_tracer/base/thread.h"
#include "tensor_tracer/protocol/json_members.h"

namespace tt::hub {
namespace {

using protocol::member;
using protocol::natural;
using protocol::number_of;

constexpr std::array<std::string_view, 8> kStepNumbers = {
    "step",    "loss",      "lr", "grad_norm", "tokens_per_second", "consumed_tokens",
    "step_ms", "valid_loss"};

// docs/protocol.md, "stats": the counts of NaN, +Infinity and -Infinity follow seven other numbers.
constexpr std::size_t kFirstCountOfStats = 7;

template <typename Number>
double element(std::span<const std::byte> payload, std::size_t index) {
  Number number{};
  std::memcpy(&number, payload.data() + index * sizeof(Number), sizeof(Number));
  return number;
}

}  // namespace

void Histogram::observe(double value) {
  for (std::size_t i = 0; i < kBounds.size(); ++i) below_[i] += value <= kBounds[i] ? 1 : 0;
  ++count_;
  sum_ += value;
}

void Metrics::on_step(const nlohmann::json& params) {
  for (const std::string_view name : kStepNumbers)
    if (const auto value = number_of(member(params, name)))
      step.insert_or_assign(std::string(name), *value);
  const auto seconds_of = [&](std::string_view name) {
    const auto milliseconds = number_of(member(params, name));
    return milliseconds >= 0 ? std::optional(*milliseconds / 1e3) : std::nullopt;
  };
  if (const auto duration = seconds_of("step_ms")) step_seconds.observe(*duration);
  tracer_seconds += seconds_of("tracer_ms").value_or(0);
  const auto add = [&](std::string_view name, std::optional<double>& sum) {
    if (const auto cost = seconds_of(name)) sum = sum.value_or(0) + *cost;
  };
  add("gather_ms", gather_seconds);
  add("encode_ms", encode_seconds);
  const auto is_finite = [&](std::string_view name) {
    return std::isfinite(number_of(member(params, name)).value_or(0));
  };
  nonfinite_losses += is_finite("loss") ? 0 : 1;
  nonfinite_gradient_norms += is_finite("grad_norm") ? 0 : 1;
}

void Metrics::on_record(const protocol::RecordView& record) {
  const protocol::Dtype dtype = record.header.dtype;
  const bool wide = dtype == protocol::Dtype::kF64;
  const std::size_t end = kFirstCountOfStats + nonfinite_numbers.size();
  if (record.header.compressor != protocol::RecordCompressor::kStats ||
      !(wide || dtype == protocol::Dtype::kF32) ||
      record.payload.size() < end * protocol::dtype_bytes(dtype))
    return;
  for (std::size_t i = 0; i < nonfinite_numbers.size(); ++i) {
    const std::size_t at = kFirstCountOfStats + i;
    const double count =
        wide ? element<double>(record.payload, at) : element<float>(record.payload, at);
    nonfinite_numbers[i] += count > 0 && std::isfinite(count) ? count : 0;
  }
}

LinkFacts parse_link(const nlohmann::json& params) {
  const auto positive = [&](std::string_view name) {
    const double number = number_of(member(params, name)).value_or(0);
    return number > 0 && std::isfinite(number) ? number : 0;
  };
  return {.send_seconds = positive("send_seconds"), .queue_bytes = positive("queue_bytes")};
}

void Metrics::on_applied(const nlohmann::json& params) {
  for (const nlohmann::json& program : member(params, "programs")) {
    applications += natural(program, "forwards").value_or(0);
    positions += natural(program, "positions").value_or(0);
  }
}

void Metrics::on_dropped(const nlohmann::json& params) {
  dropped_by_trainer += natural(params, "records").value_or(0);
}

ProcessFacts read_process_facts() {
  ProcessFacts facts{.cpu_seconds = base::process_cpu_seconds()};
  double pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  facts.resident_bytes = pages * static_cast<double>(::sysconf(_SC_PAGESIZE));
  std::error_code failure;
  for (std::filesystem::directory_iterator fd("/proc/self/fd", failure), end; !failure && fd != end;
       fd.increment(failure))
    facts.open_fds += 1;
  return facts;
}

}  // namespace tt::hub
