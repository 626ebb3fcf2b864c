#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/protocol/record.h"
#include "tensor_tracer/record/recorder.h"
#include "tensor_tracer/record/recording.h"

/// A recorder of one run in a folder of its own, and records for it. Thread: the test's.
namespace tt::record {

using nlohmann::json;
namespace fs = std::filesystem;

inline constexpr std::uint64_t kRun = 0x8f0c00000000abcd;  // negative as SQLite's number
inline const json kFacts = {{"id", "8f0c00000000abcd"},
                            {"name", "test"},
                            {"host", "here"},
                            {"start_time", "2026-11-21T03:00:00Z"},
                            {"points", json::array({{{"name", "MLP1"}, {"flag", 4}},
                                                    {{"name", "HiddenStates"}, {"flag", 7}}})}};

class RecorderTest : public testing::Test {
 protected:
  RecorderTest()
      : folder_(testing::TempDir() + "/" +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  std::string path() const { return folder_ + "/run.ttrec"; }

  // A function, not options: GCC 12 warns of temporary ones that hold an optional set.
  using Change = std::function<void(RecorderOptions&)>;
  std::unique_ptr<Recorder> start(const Change& change = [](RecorderOptions&) {}) {
    RecorderOptions options;
    options.path = path();
    change(options);
    auto recorder = Recorder::open(std::move(options));
    EXPECT_TRUE(recorder.ok());
    recorder.value()->set_run(kFacts);
    return std::move(recorder).value();
  }

  Recording reader() {
    auto recording = Recording::open(path());
    EXPECT_TRUE(recording.ok()) << base::to_string(recording.error());
    return std::move(recording).value();
  }

  std::string folder_;
};

struct Made {
  protocol::RecordHeader header;
  std::shared_ptr<const std::string> bytes;
};

inline Made make_record(std::uint64_t step, std::uint16_t point, std::uint16_t layer,
                        std::size_t size = 64, std::uint32_t prompt_set = 0) {
  protocol::RecordHeader header;
  header.run = kRun;
  header.step = step;
  header.sequence = step * 100 + layer;
  header.point = point;
  header.layer = layer;
  header.entry = point;
  header.prompt_set = prompt_set;
  header.ndim = 1;
  header.shape = {static_cast<std::uint32_t>(size / 4), 1, 1, 1};
  header.time = 1'700'000'000'000'000'000ULL + step;
  const std::string payload(size, static_cast<char>('a' + step % 26));
  auto bytes = std::make_shared<std::string>();
  protocol::append_record(*bytes, header, std::as_bytes(std::span(payload)));
  return {protocol::read_record(*bytes).value().header, bytes};
}

inline void add(Recorder& recorder, const Made& made) {
  recorder.add_record(made.header, made.bytes);
}

inline std::vector<std::pair<std::uint64_t, int>> steps_and_layers(Recording& recording,
                                                                   FrameQuery query) {
  query.run = kRun;
  std::vector<std::pair<std::uint64_t, int>> out;
  recording.frames(query, [&](const Frame& frame) {
    const auto record = protocol::read_record(frame.record);
    EXPECT_TRUE(record.ok());
    EXPECT_EQ(record.value().header.step, frame.at.step);
    out.emplace_back(frame.at.step, record.value().header.layer);
    return true;
  });
  return out;
}

inline Event saved(std::uint64_t step, std::size_t size) {
  return {.run = kRun,
          .time_ns = 1'700'000'000'000'000'000ULL + step,
          .step = step,
          .kind = "saved",
          .detail = {{"values", std::string(size, 'x')}},
          .bytes = size};
}

}  // namespace tt::record
