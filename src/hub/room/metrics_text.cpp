#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <utility>

#include "src/hub/room/metrics.h"
#include "tensor_tracer/protocol/json_members.h"

namespace tt::hub {
namespace {

using Label = std::pair<std::string_view, std::string_view>;
using Labels = std::initializer_list<Label>;

constexpr std::array<std::string_view, 9> kPhases = {"starting", "waiting",    "training",
                                                     "paused",   "evaluating", "finished",
                                                     "stopped",  "lost",       "replay"};
constexpr std::size_t kMaxLabelBytes = 128;

std::string format_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.17g", value);
  return text.data();
}

// Input and output are UTF-8, also where the text is cut.
std::string escaped(std::string_view value) {
  std::size_t size = std::min(value.size(), kMaxLabelBytes);
  while (size < value.size() && size > 0 &&
         (static_cast<unsigned char>(value[size]) & 0xC0U) == 0x80U)
    --size;
  std::string out;
  for (const char c : value.substr(0, size)) {
    if (c == '\\' || c == '"') out += '\\';
    const bool printable = static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
    out += printable ? c : ' ';
  }
  return out;
}

/// The lines of one answer. A family's samples follow its head. Thread: one at a time.
class Page {
 public:
  void head(std::string_view name, std::string_view type, std::string_view help) {
    name_ = "tensor_tracer_" + std::string(name);
    text_ += "# HELP " + name_ + " " + std::string(help) + "\n";
    text_ += "# TYPE " + name_ + " " + std::string(type) + "\n";
  }
  void sample(double value, Labels labels = {}, std::string_view suffix = {}) {
    text_ += name_ + std::string(suffix);
    const char* before = "{";
    for (const auto& [label, content] : labels) {
      text_ += before + std::string(label) + "=\"" + escaped(content) + '"';
      before = ",";
    }
    text_ += (labels.size() > 0 ? "} " : " ") + format_number(value) + "\n";
  }
  template <typename Number>
  void counter(std::string_view name, std::string_view help, Number value) {
    head(name, "counter", help);
    sample(static_cast<double>(value));
  }
  template <typename Number>
  void gauge(std::string_view name, std::string_view help, Number value) {
    head(name, "gauge", help);
    sample(static_cast<double>(value));
  }
  std::string take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

void add_infos(Page& page, const Survey& survey) {
  page.head("build_info", "gauge", "Version of the hub.");
  page.sample(1, {{"version", TT_VERSION}});
  const std::string run = protocol::text_of(survey.facts, "id");
  const std::string name = protocol::text_of(survey.facts, "name");
  const std::string host = protocol::text_of(survey.facts, "host");
  page.head("run_info", "gauge", "The run that is shown; no labels before a trainer connected.");
  page.sample(1, {{"run", run}, {"name", name}, {"host", host}});
  page.head("run_phase", "gauge", "1 for the phase that the run is in.");
  for (const std::string_view phase : kPhases)
    page.sample(phase == survey.phase ? 1 : 0, {{"phase", phase}});
  const nlohmann::json& plan = protocol::member(survey.facts, "plan");
  page.gauge("plan_number", "Number of the trace plan in force.",
             protocol::natural(plan, "number").value_or(0));
}

// Leaves out numbers that the trainer has not reported yet.
void add_step(Page& page, const Metrics& metrics) {
  const auto add = [&](std::string_view member, std::string_view name, std::string_view help,
                       double scale = 1) {
    if (const auto value = metrics.step.find(member); value != metrics.step.end())
      page.gauge(name, help, value->second * scale);
  };
  add("step", "step", "The last optimizer step that ended.");
  add("loss", "loss", "Training loss of the last step.");
  add("valid_loss", "validation_loss", "Loss of the last evaluation.");
  add("lr", "learning_rate", "Learning rate of the last step.");
  add("grad_norm", "gradient_norm", "Gradient norm of the last step.");
  add("tokens_per_second", "tokens_per_second", "Training speed of the last step.");
  add("step_ms", "last_step_duration_seconds", "Duration of the last step.", 1e-3);
  add("consumed_tokens", "consumed_tokens", "Tokens trained on since the run began.");
}

void add_tracer(Page& page, const Metrics& metrics) {
  page.counter("trace_cpu_seconds_total", "CPU time that rank 0 spent in the tracer.",
               metrics.tracer_seconds);
  if (metrics.gather_seconds) {
    page.counter("trace_gather_seconds_total", "Part of this time in gathers.",
                 *metrics.gather_seconds);
  }
  if (metrics.encode_seconds) {
    page.counter("trace_encode_seconds_total",
                 "Part of this time in which gathered values became records.",
                 *metrics.encode_seconds);
  }
  page.head("nonfinite_steps_total", "counter", "Steps whose number was NaN or infinite.");
  page.sample(static_cast<double>(metrics.nonfinite_losses), {{"number", "loss"}});
  page.sample(static_cast<double>(metrics.nonfinite_gradient_norms), {{"number", "gradient_norm"}});
  page.head("nonfinite_values_total", "counter", "Watched values that records of stats counted.");
  constexpr std::array<std::string_view, 3> kKinds = {"NaN", "+Inf", "-Inf"};
  for (std::size_t kind = 0; kind < kKinds.size(); ++kind)
    page.sample(metrics.nonfinite_numbers[kind], {{"kind", kKinds[kind]}});
}

void add_step_times(Page& page, const Histogram& times) {
  page.head("step_duration_seconds", "histogram", "Durations of the steps since the hub started.");
  for (std::size_t i = 0; i < Histogram::kBounds.size(); ++i) {
    page.sample(static_cast<double>(times.below(i)), {{"le", format_number(Histogram::kBounds[i])}},
                "_bucket");
  }
  const auto count = static_cast<double>(times.count());
  page.sample(count, {{"le", "+Inf"}}, "_bucket");
  page.sample(times.sum(), {}, "_sum");
  page.sample(count, {}, "_count");
}

void add_workers(Page& page, const Survey& survey) {
  const auto add = [&](std::string_view name, std::string_view type, std::string_view help,
                       auto number_of) {
    page.head(name, type, help);
    for (const auto& [rank, worker] : survey.workers) {
      const std::optional<double> number = number_of(worker);
      if (number) page.sample(*number, {{"rank", std::to_string(rank)}});
    }
  };
  page.gauge("workers", "Leader ranks that are connected.", survey.workers.size());
  add(
      "worker_heartbeat_age_seconds", "gauge", "Time since a leader rank's last message.",
      [](const WorkerSurvey& worker) { return std::optional(worker.silent_seconds); });
  const auto of_link = [](double LinkFacts::*member) {
    return [member](const WorkerSurvey& worker) {
      return worker.link ? std::optional((*worker.link).*member) : std::nullopt;
    };
  };
  add("worker_send_seconds_total", "counter", "Time that a leader rank's writes to the hub took.",
      of_link(&LinkFacts::send_seconds));
  add("worker_queue_bytes", "gauge", "Bytes that wait in a leader rank for the hub.",
      of_link(&LinkFacts::queue_bytes));
}

void add_leaders(Page& page, const Survey& survey) {
  const auto add = [&](std::string_view name, std::string_view type, std::string_view help,
                       auto LeaderSurvey::*number) {
    page.head(name, type, help);
    for (std::size_t stage = 0; stage < survey.leaders.size(); ++stage)
      page.sample(static_cast<double>(survey.leaders[stage].*number),
                  {{"stage", std::to_string(stage)}});
  };
  add("leader_connected", "gauge", "1 while the stage has a leader; 0: the stage is missing.",
      &LeaderSurvey::connected);
  add("leader_records_total", "counter", "Records that the stage sent.", &LeaderSurvey::records);
  add("leader_missed_records_total", "counter",
      "Records that did not come, by the gaps in their sequence numbers.", &LeaderSurvey::missed);
  add("leader_dropped_records_total", "counter", "Records that the stage's leader dropped.",
      &LeaderSurvey::dropped);
}

void add_clients(Page& page, const Metrics& metrics, const Survey& survey) {
  page.gauge("viewers", "Viewers that are connected.", survey.viewers);
  page.gauge("controller_held", "1 while somebody holds the control lease.", survey.controlled);
  page.counter("leases_total", "Claims of control that were granted.", metrics.leases);
  page.gauge("waiting_requests", "Requests that wait for the trainer's answer.",
             survey.waiting_requests);
  page.counter("connections_total", "WebSockets that were opened.", metrics.connections);
  page.head("queue_bytes", "gauge", "Bytes that wait to be written, by role of the receiver.");
  page.sample(static_cast<double>(survey.queued_for_viewers), {{"role", "viewer"}});
  page.sample(static_cast<double>(survey.queued_for_workers), {{"role", "worker"}});
}

void add_traffic(Page& page, const Metrics& metrics) {
  struct Family {
    std::string_view name;
    std::string_view help;
    std::uint64_t Traffic::*count;
  };
  constexpr std::array<Family, 4> kFamilies = {
      {{"messages_received_total", "WebSocket messages received.", &Traffic::messages_in},
       {"received_bytes_total", "Bytes of WebSocket messages received.", &Traffic::bytes_in},
       {"messages_sent_total", "WebSocket messages sent.", &Traffic::messages_out},
       {"sent_bytes_total", "Bytes of WebSocket messages sent.", &Traffic::bytes_out}}};
  for (const Family& family : kFamilies) {
    page.head(family.name, "counter", family.help);
    page.sample(static_cast<double>(metrics.viewer.*family.count), {{"role", "viewer"}});
    page.sample(static_cast<double>(metrics.worker.*family.count), {{"role", "worker"}});
  }
}

void add_faults(Page& page, const Metrics& metrics, const Survey& survey) {
  page.counter("records_received_total", "Records that workers sent.", metrics.records);
  page.head("records_dropped_total", "counter", "Records that were dropped, by where.");
  page.sample(static_cast<double>(metrics.dropped_for_viewers + survey.dropped_for_viewers),
              {{"reason", "viewer"}});
  page.sample(static_cast<double>(metrics.dropped_by_trainer), {{"reason", "trainer"}});
  page.sample(static_cast<double>(survey.recorder.dropped), {{"reason", "recorder"}});
  page.counter("records_recorded_total", "Records written to the recording or the history.",
               survey.recorder.records);
  page.counter("recording_lines_dropped_total",
               "Steps and audit lines that were not written to it.", survey.recorder.dropped_lines);
  page.gauge("recording_bytes", "Bytes of the recording's file that are in use.",
             survey.recorder.file_bytes);
  page.gauge("recording_queue_bytes", "Bytes that wait for the disk.", survey.recorder.queue_bytes);
  page.gauge("recording_stopped", "1 once the disk has failed.", survey.recorder.stopped ? 1 : 0);
  page.counter("damaged_messages_total", "Binary messages with a damaged record.",
               metrics.damaged_records);
  page.head("http_requests_total", "counter", "HTTP requests by class of their answer's status.");
  for (std::size_t digit = 1; digit < metrics.http.size(); ++digit) {
    page.sample(static_cast<double>(metrics.http[digit]),
                {{"status", std::to_string(digit) + "xx"}});
  }
  page.counter("auth_failures_total", "Requests without a right token.", metrics.auth_failures);
  page.counter("rate_limited_total", "Messages and wrong tokens that came too fast.",
               metrics.rate_limited);
  page.counter("hub_errors_total", "Failures inside the hub that it survived.", metrics.errors);
}

void add_programs(Page& page, const Metrics& metrics, const Survey& survey) {
  page.gauge("interventions_active", "Programs in force.", survey.programs);
  page.counter("interventions_applications_total", "Forwards in which a program acted.",
               metrics.applications);
  page.counter("interventions_positions_total", "Tokens that programs wrote.", metrics.positions);
}

void add_alarms(Page& page, const Survey& survey) {
  page.head("alarm_firing", "gauge", "1 while the alarm fires.");
  for (const auto& [name, firing] : survey.alarms.firing)
    page.sample(firing ? 1 : 0, {{"alarm", name}});
  page.counter("alarms_fired_total", "Times that an alarm fired.", survey.alarms.fired);
  page.counter("alarm_calls_failed_total", "Calls of webhook and command that failed.",
               survey.alarms.failed_calls);
}

void add_projections(Page& page, const Survey& survey) {
  const auto add = [&](std::string_view name, std::string_view help, auto number_of) {
    page.head(name, "gauge", help);
    for (const ProjectionMean& mean : survey.projections) {
      const std::optional<double> number = number_of(mean);
      if (!number) continue;
      const ProjectionSeries& series = mean.series;
      page.sample(*number, {{"point", series.point},
                            {"layer", std::to_string(mean.layer)},
                            {"vector", series.vector},
                            {"prompts", series.prompts},
                            {"mean_over", series.mean_over},
                            {"scale", series.scale}});
    }
  };
  using Number = std::optional<double>;
  add(
      "projection", "Mean of a projection over the prompts of a set.",
      [](const ProjectionMean& mean) { return Number(mean.value); });
  add(
      "projection_baseline", "The same at the run's start.",
      [](const ProjectionMean& mean) { return mean.baseline ? mean.baseline->mean : Number(); });
  add("projection_change", "Difference of both.", [](const ProjectionMean& mean) {
    return mean.baseline ? mean.value - mean.baseline->mean : Number();
  });
}

void add_process(Page& page, const ProcessFacts& process) {
  page.counter("process_cpu_seconds_total", "CPU time of the hub.", process.cpu_seconds);
  page.gauge("process_resident_memory_bytes", "Memory of the hub.", process.resident_bytes);
  page.gauge("process_open_fds", "File descriptors of the hub.", process.open_fds);
  page.gauge("process_uptime_seconds", "Time since the hub started.", process.uptime_seconds);
}

}  // namespace

std::string render_metrics(const Metrics& metrics, const Survey& survey,
                           const ProcessFacts& process) {
  Page page;
  add_infos(page, survey);
  add_step(page, metrics);
  add_step_times(page, metrics.step_seconds);
  add_tracer(page, metrics);
  add_workers(page, survey);
  add_leaders(page, survey);
  add_clients(page, metrics, survey);
  add_traffic(page, metrics);
  add_faults(page, metrics, survey);
  add_programs(page, metrics, survey);
  add_alarms(page, survey);
  add_projections(page, survey);
  add_process(page, process);
  return page.take();
}

}  // namespace tt::hub
