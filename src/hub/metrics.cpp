#include "src/hub/metrics.h"

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <span>

#include "tensor_tracer/base/thread.h"

namespace tt::hub {
namespace {

constexpr std::array<std::string_view, 8> kStepNumbers = {
    "step",    "loss",      "lr", "grad_norm", "tokens_per_second", "consumed_tokens",
    "step_ms", "valid_loss"};

// JSON has no numbers that are not finite: docs/protocol.md writes them as texts.
std::optional<double> number_of(const nlohmann::json& object, std::string_view member) {
  const auto value = object.find(member);
  if (value == object.end() || !(value->is_number() || value->is_string())) {
    return std::nullopt;
  }
  if (value->is_number()) {
    return value->get<double>();
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto& text = value->get_ref<const std::string&>();
  if (text == "NaN") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return text == "Infinity"    ? std::optional(kInfinity)
         : text == "-Infinity" ? std::optional(-kInfinity)
                               : std::nullopt;
}

double number_or(const nlohmann::json& object, std::string_view member, double otherwise) {
  return object.is_object() ? number_of(object, member).value_or(otherwise) : otherwise;
}

// docs/protocol.md, "stats": NaN, +Infinity and -Infinity come after seven other numbers.
constexpr std::size_t kFirstCountOfStats = 7;

template <typename Number>
double element(std::span<const std::byte> payload, std::size_t index) {
  Number number{};
  std::memcpy(&number, payload.data() + index * sizeof(Number), sizeof(Number));
  return number;
}

}  // namespace

void Histogram::observe(double value) {
  for (std::size_t i = 0; i < kBounds.size(); ++i) {
    below_[i] += value <= kBounds[i] ? 1 : 0;
  }
  ++count_;
  sum_ += value;
}

void Metrics::on_step(const nlohmann::json& params) {
  if (!params.is_object()) {
    return;
  }
  for (const std::string_view name : kStepNumbers) {
    if (const auto value = number_of(params, name)) {
      step.insert_or_assign(std::string(name), *value);
    }
  }
  if (const auto duration = number_of(params, "step_ms"); duration && *duration >= 0) {
    step_seconds.observe(*duration / 1e3);
  }
  if (const auto cost = number_of(params, "tracer_ms"); cost && *cost >= 0) {
    tracer_seconds += *cost / 1e3;
  }
  const auto add = [&](std::string_view member, std::optional<double>& sum) {
    if (const auto cost = number_of(params, member); cost && *cost >= 0) {
      sum = sum.value_or(0) + *cost / 1e3;
    }
  };
  add("gather_ms", gather_seconds);
  add("encode_ms", encode_seconds);
  nonfinite_losses += std::isfinite(number_or(params, "loss", 0)) ? 0 : 1;
  nonfinite_gradient_norms += std::isfinite(number_or(params, "grad_norm", 0)) ? 0 : 1;
}

void Metrics::on_record(const protocol::RecordView& record) {
  const protocol::Dtype dtype = record.header.dtype;
  const bool wide = dtype == protocol::Dtype::kF64;
  const std::size_t end = kFirstCountOfStats + nonfinite_numbers.size();
  if (record.header.compressor != protocol::RecordCompressor::kStats ||
      !(wide || dtype == protocol::Dtype::kF32) ||
      record.payload.size() < end * protocol::dtype_bytes(dtype)) {
    return;
  }
  for (std::size_t i = 0; i < nonfinite_numbers.size(); ++i) {
    const std::size_t at = kFirstCountOfStats + i;
    const double count =
        wide ? element<double>(record.payload, at) : element<float>(record.payload, at);
    nonfinite_numbers[i] += count > 0 && std::isfinite(count) ? count : 0;
  }
}

LinkFacts parse_link(const nlohmann::json& params) {
  const auto natural = [&](std::string_view member) {
    const double number = number_or(params, member, 0);
    return number > 0 && std::isfinite(number) ? number : 0;
  };
  return {.send_seconds = natural("send_seconds"), .queue_bytes = natural("queue_bytes")};
}

void Metrics::on_applied(const nlohmann::json& params) {
  const auto programs = params.is_object() ? params.find("programs") : params.end();
  if (programs == params.end() || !programs->is_array()) {
    return;
  }
  const auto count = [](const nlohmann::json& program, const char* member) {
    const auto value = program.is_object() ? program.find(member) : program.end();
    return value != program.end() && value->is_number_unsigned() ? value->get<std::uint64_t>() : 0;
  };
  for (const nlohmann::json& program : *programs) {
    applications += count(program, "forwards");
    positions += count(program, "positions");
  }
}

void Metrics::on_dropped(const nlohmann::json& params) {
  const auto dropped = params.is_object() ? params.find("records") : params.end();
  if (dropped != params.end() && dropped->is_number_unsigned()) {
    dropped_by_trainer += dropped->get<std::uint64_t>();
  }
}

ProcessFacts read_process_facts() {
  ProcessFacts facts{.cpu_seconds = base::process_cpu_seconds()};
  double pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  facts.resident_bytes = pages * static_cast<double>(::sysconf(_SC_PAGESIZE));
  std::error_code failure;
  for (std::filesystem::directory_iterator fd("/proc/self/fd", failure), end; !failure && fd != end;
       fd.increment(failure)) {
    facts.open_fds += 1;
  }
  return facts;
}

}  // namespace tt::hub
