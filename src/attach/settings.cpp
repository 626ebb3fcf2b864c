#include "src/attach/settings.h"

namespace tt::attach {
namespace {

using nlohmann::json;

control::HubSessionOptions hub_of(const json& text) {
  control::HubSessionOptions options;
  options.run_name = text.value("run_name", "");
  options.run_dir = text.value("run_dir", "");
  options.hub_program = text.value("program", "");
  options.hub.port = text.value("port", 0);
  options.hub.bind = text.value("bind", "");
  options.hub.auth = text.value("auth", "token");
  options.hub.page_dir = text.value("page_dir", "");
  options.hub.lease_seconds = text.value("pause_timeout", options.hub.lease_seconds);
  options.hub.recording.record = text.value("record", "");
  options.hub.alarm.alarms = text.value("alarms", "");
  return options;
}

}  // namespace

Settings read_settings(const json& text) {
  Settings settings;
  settings.control_group = text.at("control_group");
  settings.tracer_group = text.at("tracer_group");
  settings.tensor_group = text.at("tensor_group");
  settings.shape.tensor = text.at("mesh").at("tensor");
  settings.contexts = text.at("mesh").value("context", 1);
  settings.rank = text.at("rank");
  settings.shape.pipeline = text.at("mesh").at("pipeline");
  settings.shape.data = text.at("mesh").at("data");
  settings.coordinates.tensor = text.at("coordinates").at("tensor");
  settings.coordinates.pipeline = text.at("coordinates").at("pipeline");
  settings.coordinates.data = text.at("coordinates").at("data");
  settings.has_hub = text.contains("hub");
  if (settings.has_hub) settings.hub = hub_of(text.at("hub"));
  settings.vectors = text.value("vectors", "");
  settings.files = text.value("files", "");
  settings.first_step = text.value("first_step", std::int64_t{1});
  return settings;
}

}  // namespace tt::attach
