#include "tensor_tracer/record/export.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <thread>

#include "src/record/export/event_file.h"
#include "src/record/export/run_names.h"
#include "src/record/export/series.h"
#include "src/record/export/values.h"
#include "tensor_tracer/record/recorder.h"

namespace tt::record {
namespace {

using nlohmann::json;
using protocol::Dtype;
namespace fs = std::filesystem;

constexpr std::uint64_t kRun = 0x8f0c00000000abcd;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

const json kFacts = {{"id", "8f0c00000000abcd"},
                     {"points", json::array({{{"name", "MLP1"}, {"flag", 4}},
                                             {{"name", "HiddenStates"}, {"flag", 7}}})},
                     {"prompt_sets", json::array({{{"name", "a/b"}}})}};

template <typename T>
std::string record_of(Dtype dtype, const std::vector<T>& words, std::uint32_t columns,
                      std::uint64_t step = 1) {
  protocol::RecordHeader header;
  header.run = kRun;
  header.step = step;
  header.point = 7;
  header.layer = 1;
  header.dtype = dtype;
  header.ndim = 1;
  header.shape = {columns, 1, 1, 1};
  std::string bytes;
  protocol::append_record(bytes, header, std::as_bytes(std::span(words)));
  return bytes;
}

std::vector<float> floats(const std::string& record) {
  return std::get<std::vector<float>>(decode(protocol::read_record(record).value()));
}

TEST(ExportValues, HalvesWidenExactly) {
  const std::vector<std::uint16_t> words = {0x0000, 0x8000, 0x0001, 0x03ff, 0x0400,
                                            0x3c00, 0xc000, 0x7bff, 0x7c00, 0xfc00};
  const std::vector<float> expected = {0.0F,
                                       -0.0F,
                                       std::ldexp(1.0F, -24),
                                       std::ldexp(1023.0F, -24),
                                       std::ldexp(1.0F, -14),
                                       1.0F,
                                       -2.0F,
                                       65504.0F,
                                       kInfinity,
                                       -kInfinity};
  const auto got = floats(record_of(Dtype::kF16, words, 10));
  EXPECT_EQ(got, expected);
  EXPECT_TRUE(std::signbit(got[1]));
  EXPECT_TRUE(std::isnan(floats(record_of(Dtype::kF16, std::vector<std::uint16_t>{0x7e00}, 1))[0]));
  const std::vector<std::uint16_t> brains = {0x3f80, 0x7f80, 0x0001};
  EXPECT_EQ(floats(record_of(Dtype::kBf16, brains, 3)),
            (std::vector<float>{1.0F, kInfinity, std::ldexp(1.0F, -133)}));
}

TEST(ExportValues, CodesAreOffsetAndScaleOrAName) {
  std::string payload(8, '\0');
  const float ends[] = {-1.0F, 0.5F};
  std::memcpy(payload.data(), ends, sizeof ends);
  payload += std::string("\x00\xfc\xfe\xff\xfd", 5);
  const auto got =
      floats(record_of(Dtype::kU8, std::vector<char>(payload.begin(), payload.end()), 5));
  EXPECT_EQ(std::vector<float>(got.begin(), got.end() - 1),
            (std::vector<float>{-1.0F, 125.0F, kInfinity, -kInfinity}));
  EXPECT_TRUE(std::isnan(got[4]));
}

TEST(ExportNames, SeriesThatShareANameAreToldApart) {
  Series one;
  one.point = 7;
  one.layer = 3;
  one.shape = {1, 2};
  Series other = one;
  other.entry = 2;
  other.shape = {1, 4};
  Series gradient = one;
  gradient.direction = protocol::RecordDirection::kGradient;
  gradient.prompt_set = 1;
  gradient.compressor = protocol::RecordCompressor::kStats;
  Series unknown;
  unknown.point = 99;
  unknown.compressor = static_cast<protocol::RecordCompressor>(9);
  const auto names = name_series({one, other, gradient, unknown}, RunNames(kFacts));
  EXPECT_EQ(names[0].array, "HiddenStates.layers.3.entry.0.1x2");
  EXPECT_EQ(names[1].array, "HiddenStates.layers.3.entry.2.1x4");
  EXPECT_EQ(names[1].tag, "HiddenStates/layer_3/entry_2/1x4");
  EXPECT_EQ(names[2].array, "HiddenStates.layers.3.gradient.prompts.a_b.stats");
  EXPECT_EQ(names[3].array, "point_99.compressor_9");
}

TEST(ExportNames, FactsOfAnyShapeAreTaken) {
  for (const json& facts :
       {json(), json(3), json{{"points", 3}}, json{{"points", {1, {{"flag", -1}}}}},
        json{{"prompt_sets", {nullptr}}}}) {
    EXPECT_EQ(RunNames(facts).point(7), "point_7");
    EXPECT_EQ(RunNames(facts).prompt_set(1), "1");
  }
}

// By hand from the two .proto files that event_file.cpp names.
TEST(ExportEvents, ASummaryIsAProtocolBuffer) {
  Summary summary;
  summary.add_scalar("loss", 1.5F);
  EXPECT_EQ(summary.bytes(), std::string("\x0a\x0b\x0a\x04loss\x15\x00\x00\xc0\x3f", 13));
  Summary long_tag;
  long_tag.add_scalar(std::string(200, 'x'), 0);
  EXPECT_EQ(long_tag.bytes().substr(0, 6), "\x0a\xd0\x01\x0a\xc8\x01");
}

class ExportTest : public testing::Test {
 protected:
  ExportTest()
      : folder_(testing::TempDir() + "/" +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    RecorderOptions options;
    options.path = path();
    options.commit_interval = std::chrono::milliseconds(1);
    recorder_ = std::move(Recorder::open(std::move(options))).value();
    recorder_->set_run(kFacts);
  }
  std::string path() const { return folder_ + "/run.ttrec"; }

  // Returns when it is in the file.
  void add(std::uint64_t step) {
    const auto bytes = std::make_shared<const std::string>(
        record_of(Dtype::kF32, std::vector<float>{0.1F, static_cast<float>(step)}, 2, step));
    const std::uint64_t before = recorder_->counters().records;
    recorder_->add_record(protocol::read_record(*bytes).value().header, bytes);
    while (recorder_->counters().records == before) {
      std::this_thread::yield();
    }
  }

  std::string folder_;
  std::unique_ptr<Recorder> recorder_;
};

TEST_F(ExportTest, ARunThatGoesOnIsReadInOneState) {
  add(1);
  add(2);
  auto recording = Recording::open(path());
  ASSERT_TRUE(recording.ok());
  SeriesReader reader(recording.value(), {.run = kRun});
  const auto series = reader.series();
  ASSERT_EQ(series.size(), 1U);
  add(3);
  EXPECT_EQ(reader.series()[0].records, 2U);
  std::vector<std::uint64_t> steps;
  reader.records(series[0], [&](const auto& record) { steps.push_back(record.header.step); });
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{1, 2}));
}

TEST_F(ExportTest, CsvIsExactAndReportsWhatIsInIt) {
  add(3);
  recorder_->add_step(kRun, {{"step", 3}, {"loss", 0.1}}, 1'500'000'007);
  recorder_->finish();
  ExportOptions options;
  options.format = ExportFormat::kCsv;
  options.output = folder_ + "/out.csv";
  options.points = {"HiddenStates"};
  const auto text = [&] {
    std::ostringstream out;
    out << std::ifstream(options.output).rdbuf();
    return out.str();
  };
  const auto report = export_recording(path(), options);
  ASSERT_TRUE(report.ok()) << base::to_string(report.error());
  EXPECT_EQ(report.value().records, 1U);
  EXPECT_EQ(text(),
            "step,micro_batch,point,layer,direction,phase,prompt_set,entry,data_rank,compressor,"
            "row,token,head,feature,value\n"
            "3,0,HiddenStates,1,value,train,,0,0,none,,,,0,0.1\n"
            "3,0,HiddenStates,1,value,train,,0,0,none,,,,1,3\n");
  options.points = {};
  options.force = true;
  ASSERT_TRUE(export_recording(path(), options).ok());
  EXPECT_EQ(text(), "step,time,loss\n3,1.500000007,0.1\n");
}

}  // namespace
}  // namespace tt::record
