#include "src/hub/alarms/projection_book.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/protocol/crc32c.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/protocol/message.h"
#include "tensor_tracer/protocol/record_numbers.h"

namespace tt::hub {
namespace {

using nlohmann::json;
using protocol::member;
using protocol::natural;
using protocol::number_of;
using protocol::text_of;

constexpr std::size_t kMaxBaselineBytes = std::size_t{4} << 20U;

std::string scale_of(const json& compressor) {
  if (member(compressor, "cosine") == json(true)) return "cosine";
  return member(compressor, "normalize") == json(false) ? "raw" : "normalized";
}

json to_json(const ProjectionSeries& series) {
  return {{"point", series.point},
          {"vector", series.vector},
          {"prompts", series.prompts},
          {"mean_over", series.mean_over},
          {"scale", series.scale}};
}

ProjectionSeries series_in(const json& text) {
  return {text_of(text, "point"), text_of(text, "vector"), text_of(text, "prompts"),
          text_of(text, "mean_over"), text_of(text, "scale")};
}

// 0: the facts do not say it.
std::size_t prompts_in(const json& facts, const std::string& name) {
  for (const json& set : member(facts, "prompt_sets"))
    if (text_of(set, "name") == name) return member(set, "prompts").size();
  return 0;
}

}  // namespace

std::vector<ProjectionSeries> series_of(const json& entry, const std::string& name) {
  const json& compressor = member(entry, "compressor");
  const std::string mean_over = text_of(entry, "mean_over");
  std::vector<ProjectionSeries> all;
  if (mean_over.empty() || text_of(compressor, "kind") != "projection") return all;
  for (const json& vector : member(compressor, "vectors")) {
    all.push_back({name, vector.is_string() ? vector.get<std::string>() : "",
                   text_of(entry, "prompts"), mean_over, scale_of(compressor)});
  }
  return all;
}

json describe(const std::vector<ProjectionMean>& means) {
  json list = json::array();
  const ProjectionSeries* last = nullptr;
  for (const ProjectionMean& mean : means) {
    if (last == nullptr || *last != mean.series) {
      list.push_back(to_json(mean.series));
      for (const char* name : {"layers", "values", "baseline", "deviation", "change"})
        list.back()[name] = json::array();
    }
    last = &mean.series;
    json& series = list.back();
    series["layers"].push_back(mean.layer);
    series["values"].push_back(mean.value);
    series["baseline"].push_back(mean.baseline ? json(mean.baseline->mean) : json());
    series["deviation"].push_back(mean.baseline ? json(mean.baseline->deviation) : json());
    series["change"].push_back(mean.baseline ? json(mean.value - mean.baseline->mean) : json());
  }
  return {{"step", means.empty() ? 0 : means.front().step}, {"series", std::move(list)}};
}

ProjectionBook::ProjectionBook(std::string path, std::string run_id)
    : path_(std::move(path)), run_id_(std::move(run_id)) {
  if (!path_.empty()) load();
}

void ProjectionBook::load() {
  const auto text = base::read_small_file(path_, kMaxBaselineBytes);
  const auto saved = text.ok() ? protocol::parse_json(text.value(), {.bytes = kMaxBaselineBytes})
                               : base::Result<json>(text.error());
  if (!saved.ok() || text_of(saved.value(), "run") != run_id_) return;
  for (const json& one : member(saved.value(), "baselines")) {
    const auto layer = static_cast<std::uint16_t>(natural(one, "layer").value_or(0));
    const auto mean = number_of(member(one, "mean")),
               deviation = number_of(member(one, "deviation"));
    Line* const line = mean && deviation ? line_of({series_in(one), layer}) : nullptr;
    if (line != nullptr) line->baseline = Baseline{*mean, *deviation};
  }
}

base::Status ProjectionBook::save() {
  if (!must_save_) return {};
  must_save_ = false;
  if (path_.empty()) return {};
  json saved = {{"version", 1}, {"run", run_id_}, {"baselines", json::array()}};
  for (const auto& [key, line] : lines_) {
    if (!line.baseline) continue;
    json one = to_json(key.first);
    one["layer"] = key.second;
    one["mean"] = line.baseline->mean;
    one["deviation"] = line.baseline->deviation;
    saved["baselines"].push_back(std::move(one));
  }
  return base::write_private_file(path_, protocol::encode_json(std::move(saved)) + "\n");
}

void ProjectionBook::follow(const json& facts) {
  const json& plan = member(facts, "plan");
  plan_ = static_cast<std::uint32_t>(natural(plan, "number").value_or(0));
  const std::uint64_t parent_step = natural(member(facts, "parent"), "step").value_or(0);
  first_step_ = natural(facts, "baseline_step").value_or(parent_step);
  entries_.clear();
  std::uint32_t index = 0;
  for (const json& entry : member(plan, "entries")) {
    auto series = series_of(entry, text_of(entry, "point"));
    if (!series.empty()) {
      const bool takes_all = natural(entry, "rows") == 0;
      const std::size_t prompts = takes_all ? prompts_in(facts, series[0].prompts) : 0;
      entries_.emplace(index, Entry{std::move(series), prompts});
    }
    ++index;
  }
}

ProjectionBook::Line* ProjectionBook::line_of(const Key& key) {
  const auto known = lines_.find(key);
  if (known != lines_.end()) return &known->second;
  return lines_.size() < kMaxLines ? &lines_.emplace(key, Line()).first->second : nullptr;
}

void ProjectionBook::take(const protocol::RecordView& record) {
  const protocol::RecordHeader& header = record.header;
  const auto entry = entries_.find(header.entry);
  if (header.plan != plan_ || entry == entries_.end() || header.ndim == 0 ||
      header.compressor != protocol::RecordCompressor::kProjection ||
      protocol::crc32c(record.payload) != header.payload_crc)
    return;
  const std::vector<ProjectionSeries>& series = entry->second.series;
  const std::vector<double> numbers = protocol::numbers_of(record);
  if (header.shape[header.ndim - 1] != series.size()) return;
  newest_ = std::max<std::uint64_t>(newest_, header.step);
  has_news_ = true;
  for (std::size_t at = 0; at < numbers.size(); ++at) {
    const Key key{series[at % series.size()], header.layer};
    Line* const line = line_of(key);
    if (line == nullptr) continue;
    if (line->step != header.step) finish_line(key, *line);
    line->step = header.step;
    line->expected = entry->second.prompts;
    ++line->prompts;
    // A prompt without a response.
    if (std::isnan(numbers[at]) && key.first.mean_over == "response") continue;
    line->values.push_back(numbers[at]);
  }
}

void ProjectionBook::finish_line(const Key& key, Line& line) {
  line.prompts = 0;
  if (line.values.empty()) return;
  const Baseline now = baseline_of(line.values);
  line.values.clear();
  if (!line.baseline && line.step == first_step_) {
    line.baseline = now;
    must_save_ = true;
  }
  line.latest = ProjectionMean{key.first, key.second, line.step, now.mean, line.baseline};
  finished_.push_back(*line.latest);
}

std::vector<ProjectionMean> ProjectionBook::finish() {
  has_news_ = false;
  for (auto& [key, line] : lines_)
    if (line.prompts >= line.expected || line.step < newest_) finish_line(key, line);
  std::ranges::stable_sort(finished_, {}, [](const ProjectionMean& mean) {
    return std::tie(mean.step, mean.series, mean.layer);
  });
  return std::exchange(finished_, {});
}

std::vector<ProjectionMean> ProjectionBook::latest() const {
  std::vector<ProjectionMean> all;
  for (const auto& [key, line] : lines_)
    if (line.latest) all.push_back(*line.latest);
  return all;
}

}  // namespace tt::hub
