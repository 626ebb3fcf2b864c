#include "src/cli/hub_session.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <ctime>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/base/ssh_command.h"
#include "tensor_tracer/link/hub_client.h"
#include "tensor_tracer/link/hub_process.h"

namespace tt::cli {
namespace {

std::uint64_t random_id() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

// Shows the page in the user's browser. Without a browser the user has the printed address.
void open_in_browser(const std::string& page) {
  std::string program = "xdg-open";
  std::string argument = page;
  char* const words[] = {program.data(), argument.data(), nullptr};
  pid_t child = 0;
  ::posix_spawnp(&child, program.c_str(), nullptr, nullptr, words, environ);
}

config::HubConfig hub_config(const config::TrainConfig& config, const std::string& run_id) {
  const config::TracerConfig& tracer = config.tracer;
  config::HubConfig hub;
  hub.run_id = run_id;
  hub.port = tracer.tensor_tracer_port.value_or(0);
  hub.auth = tracer.tensor_tracer_auth;
  hub.allow_origin = tracer.tensor_tracer_allow_origin;
  hub.compare = tracer.tensor_tracer_compare;
  hub.lease_seconds = tracer.tensor_tracer_pause_timeout;
  hub.ready_timeout = tracer.tensor_tracer_ready_timeout;
  hub.linger = tracer.tensor_tracer_linger;
  hub.recording = config.recording;
  return hub;
}

}  // namespace

struct HubSession::State {
  config::TracerConfig config;
  std::string name;
  std::uint64_t id = 0;
  std::string id_text;
  std::string start_time;
  link::HubInfo hub;
  std::optional<link::HubClient> client;
};

base::Result<HubSession> HubSession::start(const config::TrainConfig& config) {
  auto state = std::make_unique<State>();
  state->config = config.tracer;
  state->name = config.run_name;
  state->id = random_id();
  state->id_text = fmt::format("{:016x}", state->id);
  state->start_time = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  auto hub = link::start_hub(
      {.program = {},
       .run_dir = config.run_dir.empty() ? "runs/" + state->id_text : config.run_dir,
       .config = hub_config(config, state->id_text)});
  if (!hub) return hub.error();
  state->hub = std::move(hub).value();
  if (config.tracer.tensor_tracer_open) open_in_browser(state->hub.open_path);
  return HubSession(std::move(state));
}

HubSession::HubSession(std::unique_ptr<State> state) : state_(std::move(state)) {}
HubSession::HubSession(HubSession&&) noexcept = default;
HubSession::~HubSession() = default;

nlohmann::json HubSession::facts() const {
  return {{"id", state_->id_text},
          {"name", state_->name.empty() ? state_->id_text : state_->name},
          {"start_time", state_->start_time},
          {"host", host_name()}};
}

std::uint64_t HubSession::run_id() const { return state_->id; }
const std::string& HubSession::url() const { return state_->hub.url; }
std::string HubSession::ssh_command() const {
  return base::ssh_command(base::whereabouts(), state_->hub.port);
}
const std::string& HubSession::token_path() const { return state_->hub.token_path; }
const std::string& HubSession::url_with_token() const { return state_->hub.page_url; }

void HubSession::connect(nlohmann::json facts, Check check) {
  link::HubClientOptions options;
  options.port = state_->hub.port;
  options.worker_token = state_->hub.worker_token;
  options.run = std::move(facts);
  options.check = std::move(check);
  options.pause_timeout = std::chrono::milliseconds(
      static_cast<std::int64_t>(state_->config.tensor_tracer_pause_timeout * 1e3));
  state_->client.emplace(std::move(options));
}

trace::TraceSink* HubSession::sink() { return &*state_->client; }
trace::ControlSource* HubSession::control_source() { return &*state_->client; }
void HubSession::finish() {
  if (state_->client) state_->client->finish();
}

}  // namespace tt::cli
