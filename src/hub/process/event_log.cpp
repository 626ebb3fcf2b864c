#include "tensor_tracer/hub/event_log.h"

#include <fmt/chrono.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace tt::hub {
namespace {

using Time = spdlog::log_clock::time_point;

constexpr auto kPause = std::chrono::seconds(1);  // between two lines of the same kind
constexpr std::size_t kMaxKinds = 256;

struct Place {
  std::optional<std::uint64_t> rank = {};
  std::optional<std::uint64_t> step = {};
};
thread_local Place this_place;

std::string described(const Place& place) {
  std::string text;
  text += place.rank ? " [rank " + std::to_string(*place.rank) + "]" : "";
  text += place.step ? " [step " + std::to_string(*place.step) + "]" : "";
  return text;
}

std::string utc(Time time) {
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch());
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(spdlog::log_clock::to_time_t(time)),
                     since.count() % 1000);
}

std::string_view event_of(std::string_view message) {
  const std::string_view word = message.substr(0, message.find(": "));
  const bool is_event = word.size() < message.size() && !word.empty() &&
                        std::all_of(word.begin(), word.end(), [](char c) {
                          return (c >= 'a' && c <= 'z') || c == '_' || c == '.';
                        });
  return is_event ? word : "log";
}

class EventSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  EventSink(std::shared_ptr<spdlog::sinks::sink> out, LogFormat format, std::string run)
      : out_(std::move(out)), format_(format), run_(std::move(run)) {
    out_->set_formatter(std::make_unique<spdlog::pattern_formatter>("%v"));
  }
  ~EventSink() override {
    for (const auto& [event, kind] : kinds_) {
      if (kind.left_out > 0) {
        write(spdlog::log_clock::now(), spdlog::level::info, event, "the last of their kind",
              kind.left_out, {});
      }
    }
  }
  EventSink(const EventSink&) = delete;
  EventSink& operator=(const EventSink&) = delete;

 private:
  struct Kind {
    Time written;
    std::uint64_t left_out = 0;
  };

  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    const std::string_view event = event_of(text);
    auto known = kinds_.find(event);
    if (known == kinds_.end() && kinds_.size() < kMaxKinds)
      known = kinds_.emplace(event, Kind{.written = message.time - kPause}).first;
    std::uint64_t left_out = 0;
    if (known != kinds_.end()) {
      const auto since = message.time - known->second.written;
      if (since >= Time::duration::zero() && since < kPause) {
        ++known->second.left_out;
        return;
      }
      known->second.written = message.time;
      left_out = std::exchange(known->second.left_out, 0);
    }
    write(message.time, message.level, event, text, left_out, this_place);
  }

  void flush_() override { out_->flush(); }

  void write(Time time, spdlog::level::level_enum level, std::string_view event,
             std::string_view text, std::uint64_t left_out, const Place& place) {
    const auto name = spdlog::level::to_string_view(level);
    const std::string level_name(name.data(), name.size());
    std::string line;
    if (format_ == LogFormat::kJson) {
      nlohmann::ordered_json json = {
          {"ts", utc(time)}, {"level", level_name}, {"event", event}, {"run", run_}};
      if (place.rank) json["rank"] = *place.rank;
      if (place.step) json["step"] = *place.step;
      json["message"] = text;
      if (left_out > 0) json["left_out"] = left_out;
      line = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    } else {
      line = utc(time) + " " + level_name + " " + std::string(text) + described(place);
      line += left_out > 0 ? " (" + std::to_string(left_out) + " more left out)" : "";
    }
    out_->log({time, {}, {}, level, line});
  }

  std::shared_ptr<spdlog::sinks::sink> out_;
  LogFormat format_;
  std::string run_;
  std::map<std::string, Kind, std::less<>> kinds_;
};

}  // namespace

void set_log_step(std::uint64_t step) { this_place.step = step; }

LogRank::LogRank(std::optional<std::uint64_t> rank)
    : before_(std::exchange(this_place.rank, rank)) {}
LogRank::~LogRank() { this_place.rank = before_; }

std::shared_ptr<spdlog::sinks::sink> make_event_sink(std::shared_ptr<spdlog::sinks::sink> out,
                                                     LogFormat format, std::string run) {
  return std::make_shared<EventSink>(std::move(out), format, std::move(run));
}

}  // namespace tt::hub
