#include "tensor_tracer/link/hub_client.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <csignal>
#include <exception>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "src/link/hub_connection.h"
#include "src/link/log.h"
#include "tensor_tracer/base/thread.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::link {
namespace {
namespace net = boost::asio;
constexpr auto kLongestFinish = std::chrono::seconds(30);
}  // namespace

class HubClient::Impl {
 public:
  explicit Impl(HubClientOptions options)
      : channel(options.queue_bytes, options.pause_timeout),
        identity_({{"rank", options.rank}}),
        run_(std::move(options.run)),
        connection_(io_, channel, {options.host, options.port}, std::move(options.worker_token),
                    [this] { return opening(); }),
        check_(std::move(options.check)) {
    if (options.stages > 1)
      identity_.update({{"stage", options.stage}, {"stages", options.stages}});
    channel.set_demand(0, options.is_wanted, {});
    if (check_) {
      channel.expect_checks();
      checker_ = std::thread([this] { run_checks(); });
    }
    thread_ = std::thread([this] { run_io(); });
  }

  void wake() {
    net::post(
        io_, [this] { connection_.wake(); });
  }

  void answer(std::uint64_t id, base::Result<nlohmann::json> outcome) noexcept {
    try {
      channel.push_answer(id, [&](std::uint64_t hub_id) {
        return protocol::encode_answer(hub_id, std::move(outcome));
      });
      wake();
    } catch (const std::exception& error) {
      log(LogLevel::kError, std::string("an answer was not queued: ") + error.what());
    }
  }

  // Keeps the event if it must be sent again after a reconnect.
  void remember(std::string_view event, const nlohmann::json& params, const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (event == "state")
      last_state_ = text;
    else if (event == "plan" && params.contains("plan"))
      run_["plan"] = params.at("plan");
    else if (event == "prompts" && params.contains("prompt_sets"))
      run_["prompt_sets"] = params.at("prompt_sets");
    else if (event == "interventions" && params.contains("programs"))
      run_["interventions"] = params.at("programs");
  }

  void finish(std::chrono::milliseconds limit) {
    const std::lock_guard lock(finish_mutex_);
    if (!thread_.joinable()) return;
    channel.end_checks();
    if (checker_.joinable()) checker_.join();
    const bool written = channel.wait_until_written(limit, kLongestFinish);
    net::post(io_, [this] { connection_.close(); });
    // Waits for the hub's answer: then the hub has read everything. If the socket closed earlier,
    // bytes that the hub has not read could be lost.
    if (written) ended_.get_future().wait_for(limit);
    io_.stop();
    thread_.join();
  }

  Channel channel;

 private:
  void run_io() {
    base::reset_affinity();
    base::set_thread_name("tt-link");
    net::co_spawn(io_, connection_.run(), [this](const std::exception_ptr& failure) {
      if (failure) std::rethrow_exception(failure);
      ended_.set_value();
      io_.stop();
    });
    try {
      const auto work = net::make_work_guard(io_);
      io_.run();
    } catch (const std::exception& error) {
      // The run continues without its viewers.
      channel.set_lost(Channel::Clock::now());
      log(LogLevel::kError,
          std::string("the connection to the hub failed for good: ") + error.what());
    }
  }

  void run_checks() {
    base::reset_affinity();
    base::set_thread_name("tt-check");
    while (const auto request = channel.take_check()) answer(request->id, checked(*request));
  }

  // No request may end the thread that answers.
  base::Result<nlohmann::json> checked(const trace::Request& request) const {
    try {
      return check_(request.body);
    } catch (const std::exception& error) {
      const std::string method(protocol::row_of(request.body).method);
      log(LogLevel::kError, method + " failed: " + error.what());
      return base::Error{"internal", "this could not be checked", method};
    }
  }

  std::vector<std::string> opening() {
    const std::lock_guard lock(mutex_);
    nlohmann::json hello = {{"versions", {protocol::kProtocolVersion}},
                            {"role", "worker"},
                            {"client", "tensor-tracer"},
                            {"run", run_}};
    hello.update(identity_);
    std::vector<std::string> messages = {protocol::encode_request(1, "hello", std::move(hello))};
    if (!last_state_.empty()) messages.push_back(last_state_);
    return messages;
  }

  nlohmann::json identity_;  // members of hello: rank, and of a run with stages the stage
  std::mutex finish_mutex_;
  std::mutex mutex_;
  nlohmann::json run_;      // guarded by mutex_
  std::string last_state_;  // guarded by mutex_
  net::io_context io_{1};
  HubConnection connection_;
  std::promise<void> ended_;
  const HubClientOptions::Check check_;
  std::thread checker_;
  std::thread thread_;
};

HubClient::HubClient(HubClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {
  // If the hub has ended, a write must return an error instead of ending the run.
  std::signal(SIGPIPE, SIG_IGN);
}

HubClient::~HubClient() { finish(); }

void HubClient::send_records(std::string records) noexcept {
  try {
    impl_->channel.push_records(std::move(records));
    impl_->wake();
  } catch (const std::exception& error) {
    log(LogLevel::kError, std::string("records were not queued: ") + error.what());
  }
}

void HubClient::send_event(std::string_view event, nlohmann::json params) noexcept {
  try {
    std::string text = protocol::encode_notification(event, params);
    impl_->remember(event, params, text);
    if (event == "saved" || event == "applied" || event == "response")
      impl_->channel.push_data(std::move(text));
    else
      impl_->channel.push_text(std::move(text));
    impl_->wake();
  } catch (const std::exception& error) {
    log(LogLevel::kError, std::string("an event was not queued: ") + error.what());
  }
}

std::vector<trace::Request> HubClient::poll() { return impl_->channel.poll(Channel::Clock::now()); }

std::vector<std::string> HubClient::take_notices() { return impl_->channel.take_notices(); }

void HubClient::wait(std::chrono::milliseconds limit) {
  impl_->channel.wait(Channel::Clock::now() + limit);
}

bool HubClient::has_viewer() const { return impl_->channel.has_viewer(); }

trace::Demand HubClient::demand() const { return impl_->channel.demand(); }

void HubClient::answer(std::uint64_t id, nlohmann::json result) noexcept {
  impl_->answer(id, std::move(result));
}

void HubClient::refuse(std::uint64_t id, const base::Error& error) noexcept {
  impl_->answer(id, error);
}

void HubClient::finish(std::chrono::milliseconds limit) noexcept {
  try {
    impl_->finish(limit);
  } catch (const std::exception& error) {
    log(LogLevel::kError,
        std::string("the connection to the hub did not end well: ") + error.what());
  }
}

std::uint64_t HubClient::dropped_records() const { return impl_->channel.dropped(); }

}  // namespace tt::link
