#include "src/hub/http/history_question.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "src/hub/http/history.h"
#include "src/hub/http/http_answers.h"

namespace tt::hub {
namespace {

constexpr auto kAwaitTimer = net::as_tuple(net::use_awaitable);
constexpr auto kHistoryTimeout = std::chrono::seconds(20);

/// The question that a connection waits for. Thread: the hub's I/O thread; `let_go`: any.
struct Question {
  explicit Question(const net::any_io_executor& executor) : over(executor, kHistoryTimeout) {}

  net::steady_timer over;  // cancelled when there is an answer, or when no answer will come
  std::optional<HistoryAnswer> answer;
  std::atomic<bool> let_go = false;  // the connection no longer waits
};

/// The same question for the reading thread. The destructor wakes the connection, with an answer or
/// without.
struct Asked {
  Asked(std::shared_ptr<Question> asked, net::any_io_executor io, HistoryLoad& history)
      : question(std::move(asked)),
        executor(std::move(io)),
        load(history),
        waiting(history.add_waiting()) {}
  ~Asked() {
    try {
      net::post(
          executor,
          [question = std::move(question), answer = std::move(answer)]() mutable {
            question->answer = std::move(answer);
            question->over.cancel();
          });
    } catch (const std::exception& error) {
      spdlog::error("history_failed: {}", error.what());
    }
  }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

  std::shared_ptr<Question> question;
  const net::any_io_executor executor;
  HistoryLoad& load;
  const std::shared_ptr<HistoryLoad::Part> waiting;
  std::optional<HistoryAnswer> answer;
};

HistoryAnswer unavailable(const HttpRequest& request, const std::string& why) {
  HttpResponse response = refusal(request, http::status::service_unavailable, why);
  response.set(http::field::retry_after, "1");
  return {std::move(response), nullptr};
}

record::QueryThread::Query make_query(std::shared_ptr<Asked> asked, HttpRequest request,
                                      const record::RecorderCounters& counters, OtherRuns& others) {
  return [asked = std::move(asked), request = std::move(request), counters,
          &others](record::Recording& recording) {
    if (asked->question->let_go) return;
    if (!asked->load.has_room()) {
      asked->answer = unavailable(request, "too much is being sent: read it, or ask again later");
      return;
    }
    HttpResponse response = answer_any_run(request, recording, counters, others);
    auto held = asked->load.add_bytes(response.body().size());
    asked->answer = HistoryAnswer{std::move(response), std::move(held)};
  };
}

// True also for a client that has only closed its sending side; such clients are rare.
bool has_left(int socket) {
  char next = 0;
  const ssize_t got = ::recv(socket, &next, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

void watch_client(tcp::socket& socket, const std::shared_ptr<Question>& question) {
  socket.async_wait(
      tcp::socket::wait_read,
      [question, handle = socket.native_handle()](beast::error_code failure) {
        if (failure || has_left(handle)) {
          question->let_go = true;
          question->over.cancel();
        }
      });
}

}  // namespace

net::awaitable<HistoryAnswer> ask_history(beast::tcp_stream& stream, Context& context,
                                          HttpRequest request) {
  if (path_of(request) == "/history/runs" && !context.has_history())
    co_return HistoryAnswer{answer_runs(request, context.others), nullptr};
  const auto run = run_asked_for(request);
  record::QueryThread* const other = run ? context.others.find(*run) : nullptr;
  if (other == nullptr && !context.has_history()) {
    co_return HistoryAnswer{refusal(request, http::status::not_found, "no history is kept"),
                            nullptr};
  }
  if (context.history.is_busy())
    co_return unavailable(request, "too many questions wait for the disk: ask again later");
  const auto counters = other == nullptr && context.recorder ? context.recorder->counters()
                                                             : record::RecorderCounters{};
  const auto question = std::make_shared<Question>(stream.get_executor());
  auto query = make_query(std::make_shared<Asked>(question, stream.get_executor(), context.history),
                          request, counters, context.others);
  if (other != nullptr)
    other->post(std::move(query));
  else
    context.read_history(std::move(query));
  watch_client(stream.socket(), question);
  const auto [ended_early] = co_await question->over.async_wait(kAwaitTimer);
  question->let_go = true;
  if (question->answer) co_return std::move(*question->answer);
  co_return unavailable(
      request, ended_early ? "the recording cannot be read: hub.log says why" : "the disk is slow");
}

}  // namespace tt::hub
