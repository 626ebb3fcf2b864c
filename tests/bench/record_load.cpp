// Times the recorder and the reader of recordings, at scripts/bench/record.py's word:
//
//   raw FOLDER RECORD_BYTES RECORDS      write() of that many records, fsync() after each
//   late FOLDER RECORD_BYTES RECORDS     the same with an fsync() twice a second
//   record FOLDER RECORD_BYTES RECORDS   the same records through the recorder
//   fill FILE RECORD_BYTES RECORDS       a recording of that many records, which stays
//   seek FILE COUNT                      opens it and reads single (step, layer, point)
//
// The first three answer with seconds and CPU seconds; the last with milliseconds, of opening it,
// of the first read, then of COUNT reads at random.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>

#include "tensor_tracer/base/check.h"
#include "tensor_tracer/base/scoped_fd.h"
#include "tensor_tracer/base/thread.h"
#include "tensor_tracer/protocol/record.h"
#include "tensor_tracer/record/recorder.h"
#include "tensor_tracer/record/recording.h"

namespace {

using namespace tt;
using Clock = std::chrono::steady_clock;

// A step of 12 layers with 4 points each.
constexpr std::size_t kLayers = 12;
constexpr std::size_t kPoints = 4;
constexpr std::size_t kRecordsOfStep = kLayers * kPoints;
constexpr std::uint64_t kRun = 0x5f0c;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Made {
  protocol::RecordHeader header;
  std::shared_ptr<const std::string> bytes;
};

// Numbers that do not compress.
Made make_record(std::size_t bytes) {
  std::mt19937_64 random(1);
  std::string payload(bytes - protocol::kRecordHeaderBytes, '\0');
  for (char& byte : payload) byte = static_cast<char>(random());
  Made made;
  made.header.run = kRun;
  made.header.ndim = 1;
  made.header.shape[0] = static_cast<std::uint32_t>(payload.size() / sizeof(float));
  auto whole = std::make_shared<std::string>();
  protocol::append_record(*whole, made.header, std::as_bytes(std::span(payload)));
  made.header = protocol::read_record(*whole).value().header;
  made.bytes = std::move(whole);
  return made;
}

struct Cost {
  double seconds = 0;
  double cpu = 0;
};

Cost write_raw(const std::string& folder, std::size_t bytes, std::size_t records,
               double seconds_between_syncs) {
  const std::string path = folder + "/raw";
  const base::ScopedFd file(::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
  TT_CHECK(file.get() >= 0, "cannot write " + path);
  const Made made = make_record(bytes);
  const double cpu = base::process_cpu_seconds();
  const Clock::time_point begin = Clock::now();
  Clock::time_point synced = begin;
  for (std::size_t i = 0; i < records; ++i) {
    const auto written = ::write(file.get(), made.bytes->data(), made.bytes->size());
    TT_CHECK(written == static_cast<ssize_t>(made.bytes->size()), "a write failed");
    if (seconds_since(synced) < seconds_between_syncs) continue;
    ::fsync(file.get());
    synced = Clock::now();
  }
  ::fsync(file.get());
  const Cost cost{seconds_since(begin), base::process_cpu_seconds() - cpu};
  std::filesystem::remove(path);
  return cost;
}

// As a trainer would that waits; nothing may be dropped.
Cost record_all(const std::string& path, std::size_t bytes, std::size_t records) {
  record::RecorderOptions options;
  options.path = path;
  auto opened = record::Recorder::open(std::move(options));
  TT_CHECK(opened.ok(), opened ? "" : opened.error().message);
  record::Recorder& recorder = *opened.value();
  recorder.set_run({{"id", "0000000000005f0c"}});
  const Made made = make_record(bytes);
  const double cpu = base::process_cpu_seconds();
  const Clock::time_point begin = Clock::now();
  for (std::size_t i = 0; i < records; ++i) {
    while (recorder.counters().queue_bytes > (std::size_t{48} << 20U))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    protocol::RecordHeader header = made.header;
    header.step = 1 + i / kRecordsOfStep;
    header.layer = static_cast<std::uint16_t>(1 + i / kPoints % kLayers);
    header.point = static_cast<std::uint16_t>(4 + i % kPoints);
    recorder.add_record(header, made.bytes);
  }
  recorder.finish();
  const Cost cost{seconds_since(begin), base::process_cpu_seconds() - cpu};
  TT_CHECK(recorder.counters().dropped == 0, "records were dropped");
  return cost;
}

void seek(const std::string& path, std::size_t count) {
  Clock::time_point begin = Clock::now();
  auto opened = record::Recording::open(path);
  TT_CHECK(opened.ok(), opened ? "" : opened.error().message);
  record::Recording& recording = opened.value();
  const auto runs = recording.runs();
  std::cout << 1e3 * seconds_since(begin);
  std::mt19937_64 random(2);
  for (std::size_t i = 0; i <= count; ++i) {
    record::FrameQuery query;
    query.run = runs.back().run;
    query.first_step = query.last_step = 1 + random() % runs.back().last_step;
    query.point = static_cast<std::uint16_t>(4 + random() % kPoints);
    query.layers = {static_cast<std::uint16_t>(1 + random() % kLayers)};
    std::size_t found = 0;
    begin = Clock::now();
    recording.frames(query, [&found](const record::Frame& frame) {
      found += frame.record.size();
      return true;
    });
    std::cout << ' ' << 1e3 * seconds_since(begin);
    TT_CHECK(found > 0, "a record is missing");
  }
  std::cout << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 3 ? argv[1] : "";
  const auto number = [argv](int index) { return std::size_t{std::stoul(argv[index])}; };
  Cost cost;
  if (what == "seek") {
    seek(argv[2], number(3));
    return 0;
  }
  TT_CHECK(argc == 5,
           "arguments: raw|late|record|fill PATH RECORD_BYTES RECORDS, or seek FILE COUNT");
  if (what == "raw" || what == "late") {
    cost = write_raw(argv[2], number(3), number(4), what == "raw" ? 0 : 0.5);
  } else {
    const bool stays = what == "fill";
    const std::string path = stays ? argv[2] : std::string(argv[2]) + "/bench.ttrec";
    cost = record_all(path, number(3), number(4));
    if (!stays)
      for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(path + end);
  }
  std::cout << cost.seconds << ' ' << cost.cpu << std::endl;
  return 0;
}
