#include "src/hub/room/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

namespace tt::hub {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

std::string rendered(const Metrics& metrics, const Survey& survey = {}) {
  return render_metrics(metrics, survey, {});
}

TEST(Metrics, TellTheLatestStepAndAddUpTimes) {
  Metrics metrics;
  EXPECT_THAT(rendered(metrics), Not(HasSubstr("tensor_tracer_loss")));
  metrics.on_step({{"step", 1}, {"loss", 5.5}, {"step_ms", 20.0}, {"tracer_ms", 2.0}});
  metrics.on_step({{"step", 2}, {"loss", "NaN"}, {"step_ms", 70'000.0}, {"tracer_ms", 3.0}});
  const std::string text = rendered(metrics);
  EXPECT_THAT(text, HasSubstr("\ntensor_tracer_step 2\n"));
  EXPECT_THAT(text, HasSubstr("\ntensor_tracer_loss NaN\n"));
  EXPECT_THAT(text, HasSubstr("\ntensor_tracer_last_step_duration_seconds 70\n"));
  EXPECT_THAT(text, HasSubstr("step_duration_seconds_bucket{le=\"0.01\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("step_duration_seconds_bucket{le=\"60\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("step_duration_seconds_bucket{le=\"+Inf\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("step_duration_seconds_count 2\n"));
  EXPECT_DOUBLE_EQ(metrics.step_seconds.sum(), 70.02);
  EXPECT_DOUBLE_EQ(metrics.tracer_seconds, 0.005);
}

TEST(Metrics, TakeNothingThatIsNoNumber) {
  Metrics metrics;
  for (const json& params :
       {json(), json(1), json::array(), json{{"loss", true}, {"step_ms", "soon"}, {"lr", nullptr}},
        json{{"step_ms", -1}, {"tracer_ms", "NaN"}, {"records", "3"}}}) {
    metrics.on_step(params);
    metrics.on_dropped(params);
  }
  EXPECT_EQ(metrics.step_seconds.count(), 0U);
  EXPECT_EQ(metrics.tracer_seconds, 0.0);
  EXPECT_EQ(metrics.dropped_by_trainer, 0U);
  metrics.on_dropped({{"records", 3U}});
  EXPECT_EQ(metrics.dropped_by_trainer, 3U);
}

TEST(Metrics, TellWhatProgramsDid) {
  Metrics metrics;
  for (const json& params : {json(), json(1), json{{"programs", 3}}, json{{"programs", {1, {}}}},
                             json{{"programs", {{{"forwards", -1}, {"positions", 2.5}}}}}})
    metrics.on_applied(params);
  EXPECT_EQ(metrics.applications + metrics.positions, 0U);
  const json program = {{"name", "steer"}, {"forwards", 4U}, {"positions", 512U}};
  metrics.on_applied({{"programs", {program, program}}});
  Survey survey;
  survey.programs = 2;
  const std::string text = rendered(metrics, survey);
  EXPECT_THAT(text, HasSubstr("\ntensor_tracer_interventions_active 2\n"));
  EXPECT_THAT(text, HasSubstr("\ntensor_tracer_interventions_applications_total 8\n"));
  EXPECT_THAT(text, HasSubstr("\ntensor_tracer_interventions_positions_total 1024\n"));
  EXPECT_THAT(text, Not(HasSubstr("steer")));
}

TEST(Metrics, AddUpWhatTheTracersPartsTookOnceTheyAreTold) {
  Metrics metrics;
  metrics.on_step({{"step", 1}, {"gather_ms", "NaN"}, {"encode_ms", -1}});
  EXPECT_THAT(rendered(metrics), Not(HasSubstr("gather")));
  EXPECT_THAT(rendered(metrics), Not(HasSubstr("encode")));
  metrics.on_step({{"step", 2}, {"gather_ms", 500.0}, {"encode_ms", 0}});
  metrics.on_step({{"step", 3}, {"gather_ms", 1000.0}});
  EXPECT_THAT(rendered(metrics), HasSubstr("\ntensor_tracer_trace_gather_seconds_total 1.5\n"));
  EXPECT_THAT(rendered(metrics), HasSubstr("\ntensor_tracer_trace_encode_seconds_total 0\n"));
}

TEST(Metrics, CountStepsWhoseNumbersAreNotFinite) {
  Metrics metrics;
  metrics.on_step({{"step", 1}, {"loss", 2.5}, {"grad_norm", 1}});
  metrics.on_step({{"step", 2}, {"loss", "NaN"}, {"grad_norm", "Infinity"}});
  metrics.on_step({{"step", 3}, {"loss", "-Infinity"}});
  const std::string text = rendered(metrics);
  EXPECT_THAT(text, HasSubstr("nonfinite_steps_total{number=\"loss\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("nonfinite_steps_total{number=\"gradient_norm\"} 1\n"));
}

template <typename Number>
void add_record(Metrics& metrics, protocol::Dtype dtype, protocol::RecordCompressor compressor,
                std::vector<Number> numbers) {
  const auto payload = std::as_bytes(std::span<const Number>(numbers));
  const protocol::RecordHeader header{.dtype = dtype, .compressor = compressor};
  metrics.on_record({.header = header, .payload = payload, .whole = {}});
}

TEST(Metrics, CountWhatStatsCounted) {
  using enum protocol::Dtype;
  using enum protocol::RecordCompressor;
  Metrics metrics;
  add_record<double>(metrics, kF64, kStats, {9, 1, 1, 1, 1, 1, 0, 3, 2, 1, 7, 7});
  add_record<float>(metrics, kF32, kStats, {9, 1, 1, 1, 1, 1, 0, 4, 0, 0});
  const double nan = std::nan("");
  add_record<double>(metrics, kF64, kStats, {9, 1, 1, 1, 1, 1, 0, nan, -5, HUGE_VAL});
  add_record<double>(metrics, kF64, kStats, {9, 1, 1, 1, 1, 1, 0, 3, 2});
  add_record<float>(metrics, kF32, kTile, {9, 1, 1, 1, 1, 1, 0, 4, 8, 8});
  add_record<float>(metrics, kU8, kStats, {9, 1, 1, 1, 1, 1, 0, 4, 8, 8});
  const std::string text = rendered(metrics);
  EXPECT_THAT(text, HasSubstr("nonfinite_values_total{kind=\"NaN\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("nonfinite_values_total{kind=\"+Inf\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("nonfinite_values_total{kind=\"-Inf\"} 1\n"));
}

TEST(Metrics, TellEachWorkersSideOfItsConnection) {
  for (const json& params : {json(), json(1), json{{"send_seconds", "NaN"}, {"queue_bytes", -1}}}) {
    EXPECT_EQ(parse_link(params).send_seconds, 0);
    EXPECT_EQ(parse_link(params).queue_bytes, 0);
  }
  Survey survey;
  survey.workers[4].link = parse_link({{"send_seconds", 1.5}, {"queue_bytes", 4096}});
  const std::string text = rendered({}, survey);
  EXPECT_THAT(text, HasSubstr("worker_send_seconds_total{rank=\"4\"} 1.5\n"));
  EXPECT_THAT(text, HasSubstr("worker_queue_bytes{rank=\"4\"} 4096\n"));
}

TEST(Metrics, TellOfEachStageWhetherItHasALeader) {
  Survey survey;
  survey.leaders = {{.connected = true, .records = 8}, {.records = 4, .missed = 3, .dropped = 2}};
  const std::string text = rendered({}, survey);
  EXPECT_THAT(text, HasSubstr("leader_connected{stage=\"0\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("leader_connected{stage=\"1\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("leader_records_total{stage=\"0\"} 8\n"));
  EXPECT_THAT(text, HasSubstr("leader_missed_records_total{stage=\"1\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("leader_dropped_records_total{stage=\"1\"} 2\n"));
}

TEST(Metrics, EscapeAndCutLabels) {
  Survey survey;
  survey.facts = {{"name", "a\"b\\c\nd"}, {"host", std::string(127, 'x') + "\u00e9"}};
  const std::string text = rendered({}, survey);
  EXPECT_THAT(text, HasSubstr(R"(name="a\"b\\c d")"));
  EXPECT_THAT(text, HasSubstr("host=\"" + std::string(127, 'x') + "\"")) << "no half character";
}

TEST(Metrics, AddWhatViewersMissedWhoAreHereAndWhoLeft) {
  Metrics metrics;
  metrics.dropped_for_viewers = 3;
  Survey survey{.workers = {{0, {.silent_seconds = 1.5}}, {4, {.silent_seconds = 2.5}}}};
  survey.dropped_for_viewers = 4;
  const std::string text = rendered(metrics, survey);
  EXPECT_THAT(text, HasSubstr("records_dropped_total{reason=\"viewer\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("worker_heartbeat_age_seconds{rank=\"4\"} 2.5\n"));
  EXPECT_THAT(text, HasSubstr("tensor_tracer_workers 2\n"));
}

TEST(Metrics, ReadTheProcess) {
  const ProcessFacts facts = read_process_facts();
  EXPECT_GT(facts.resident_bytes, 1e6);
  EXPECT_GE(facts.open_fds, 3);
  EXPECT_GT(facts.cpu_seconds, 0);
}

}  // namespace
}  // namespace tt::hub
