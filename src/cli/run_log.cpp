#include "src/cli/run_log.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "tensor_tracer/base/size_text.h"
#include "tensor_tracer/base/ssh_command.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::cli {
namespace {

constexpr int kBarWidth = 24;
constexpr std::size_t kRecentLines = 1000;

// "4:05" or "1:04:05".
std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  const auto hours = whole / 3600;
  const auto minutes = whole / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string bar(double share) {
  std::string text;
  for (int i = 0; i < kBarWidth; ++i) text += i < share * kBarWidth ? "█" : "░";
  return text;
}

// Without AVX-512, oneDNN multiplies bfloat16 numbers one at a time.
bool multiplies_bf16_fast() {
  const auto asks =
      c10::Dispatcher::singleton().findSchema({"mkldnn::_is_mkldnn_bf16_supported", ""});
  return !asks || asks->typed<bool()>().call();
}

}  // namespace

RunLog::RunLog(const config::TrainConfig& config, const comm::Launch& launch)
    : config_(config),
      is_first_(launch.rank == 0),
      on_terminal_(!launch.is_launched() && ::isatty(STDOUT_FILENO) == 1) {}

void RunLog::say(const std::string& line) const {
  if (!is_first_) return;
  keep(line);
  std::FILE* out = config_.log_format == "json" ? stderr : stdout;
  fmt::print(out, "{}\n", line);
  std::fflush(out);
}

void RunLog::data(const RunData& data) {
  std::string text;
  for (const std::string& line : data.lines()) text += (text.empty() ? "" : "\n       ") + line;
  say(fmt::format("data   {}; unigram entropy {:.4f} nats per {}", text, data.unigram_entropy(),
                  data.has_bytes() ? "byte" : "token"));
  for (const std::string& one : data.notices()) notice(one);
}

void RunLog::model(std::int64_t num_parameters, const mesh::MeshShape& shape,
                   const comm::Launch& launch) {
  say(fmt::format("model  {} parameters, {} layers of {}; {}", base::with_commas(num_parameters),
                  config_.model.num_layers, config_.model.hidden_size,
                  config_.bf16 ? "bf16" : config_.params_dtype));
  if (config_.compute_dtype() == "bfloat16" && !multiplies_bf16_fast()) {
    say(
        fmt::format("       slow: this CPU has no AVX-512, which bf16 needs to be faster than "
                    "float32; leave out {}",
                    config_.bf16 ? "--bf16" : "--params-dtype bfloat16"));
  }
  say(fmt::format("mesh   tensor {} x data {}, {} rank{}, {} thread{} each", shape.tensor,
                  shape.data, launch.world_size, launch.world_size == 1 ? "" : "s",
                  at::get_num_threads(), at::get_num_threads() == 1 ? "" : "s"));
}

void RunLog::hub(const link::HubInfo& hub) {
  if (config_.tracer.print_url.value_or(on_terminal_))
    say("page   " + hub.page_url);
  else
    say(fmt::format("page   {} (token in {})", hub.url, hub.token_path));
  if (const std::string ssh = base::ssh_command(base::whereabouts(), hub.port); !ssh.empty())
    say("       from your own machine: " + ssh);
}

void RunLog::recording(const std::string& path) {
  if (path.empty()) return;
  const std::uint64_t max_bytes = config_.recording.max_bytes();
  std::string text = "kept   " + path;
  if (max_bytes > 0)
    text +=
        fmt::format(", at most {}: the oldest traced data goes first", base::size_text(max_bytes));
  if (!config_.recording.takes_traced()) text += "; no traced data, as --history off asks";
  say(text);
}

void RunLog::notice(const std::string& text) {
  finish();
  say("note   " + text);
}

void RunLog::change(const std::string& text) {
  finish();
  say("page   " + text);
}

void RunLog::resume(const std::string& checkpoint, std::int64_t step) {
  first_step_ = step;
  say(fmt::format("load   {}: the run goes on after step {}", checkpoint, step));
}

void RunLog::saved(const base::Result<checkpoint::SavedCheckpoint>& saved) {
  finish();
  if (!saved) {
    fmt::print(stderr, "tensor-tracer: no checkpoint was saved: {}\n", to_string(saved.error()));
    return;
  }
  const checkpoint::SavedCheckpoint& facts = saved.value();
  say(fmt::format("saved  step {} in {}, {} in {:.1f} s", facts.step, facts.path,
                  base::size_text(facts.bytes), facts.seconds));
}

std::string RunLog::time_left(const train::StepReport& report) const {
  const auto steps = static_cast<double>(config_.train_iters - report.step);
  return duration(steps * mean_step_ms_ * 1e-3) + " left";
}

std::string RunLog::line(const train::StepReport& report) const {
  return to_line(report, config_.train_iters) + "  " + time_left(report);
}

void RunLog::move_bar(const train::StepReport& report) {
  const double done = static_cast<double>(report.step) / static_cast<double>(config_.train_iters);
  fmt::print("\r\x1b[2K{} {}/{}  loss {:.4f}  {:.0f} tokens/s  {}", bar(done), report.step,
             config_.train_iters, report.loss, report.tokens_per_second, time_left(report));
  line_is_open_ = true;
  if (report.valid_loss) {
    fmt::print("\r\x1b[2K");
    line_is_open_ = false;
    say(line(report));
  }
}

void RunLog::step(const train::StepReport& report) {
  if (!is_first_) return;
  {
    const std::lock_guard lock(mutex_);
    last_ = report;
    if (report.valid_loss) valid_loss_ = report.valid_loss;
  }
  mean_step_ms_ =
      mean_step_ms_ == 0.0 ? report.step_ms : 0.9 * mean_step_ms_ + 0.1 * report.step_ms;
  const bool as_json = config_.log_format == "json";
  const std::string text = as_json ? protocol::encode_json(to_json(report)) : line(report);
  keep(text);
  if (!as_json && config_.progress_bar.value_or(on_terminal_))
    move_bar(report);
  else if (report.valid_loss || report.step == config_.train_iters ||
           report.step % config_.log_interval == 0)
    fmt::print("{}\n", text);
  std::fflush(stdout);
}

void RunLog::cost(const train::TracerCost& cost) {
  finish();
  say(fmt::format("trace  {:.3f} s of the ranks' {:.1f} s of CPU time, {:.2f} %",
                  cost.tracer_seconds, cost.rank_seconds,
                  100 * cost.tracer_seconds / cost.rank_seconds));
}

std::string RunLog::summary(const std::string& recording) const {
  const std::lock_guard lock(mutex_);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin_;
  const std::int64_t step = last_ ? last_->step : first_step_;
  const std::string time = duration(seconds.count());
  std::string text = step == config_.train_iters
                         ? fmt::format("end    {} steps in {}", step, time)
                         : fmt::format("end    stopped after step {} of {}, in {}", step,
                                       config_.train_iters, time);
  if (last_) text += fmt::format("; loss {:.4f}", last_->loss);
  if (valid_loss_) text += fmt::format(", validation loss {:.4f}", *valid_loss_);
  if (!recording.empty()) {
    text += fmt::format("\n       recorded in {0}; to see it again: tensor-tracer replay {0}",
                        recording);
  }
  return text;
}

void RunLog::end(const std::string& recording) {
  finish();
  say(summary(recording));
}

void RunLog::end_at_once(const std::string& recording) const {
  fmt::print(stderr, "{}\n", summary(recording));
}

std::int64_t RunLog::last_step() const {
  const std::lock_guard lock(mutex_);
  return last_ ? last_->step : first_step_;
}

std::string RunLog::recent() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const std::string& line : recent_) text += line + "\n";
  return text;
}

void RunLog::keep(const std::string& line) const {
  const std::lock_guard lock(mutex_);
  recent_.push_back(line);
  if (recent_.size() > kRecentLines) recent_.pop_front();
}

void RunLog::finish() {
  if (line_is_open_) fmt::print("\n");
  line_is_open_ = false;
}

}  // namespace tt::cli
