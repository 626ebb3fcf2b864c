#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>

#include "src/hub/process/context.h"
#include "src/hub/socket/net.h"

namespace tt::hub {

struct HistoryAnswer {
  HttpResponse response;
  std::shared_ptr<HistoryLoad::Part> held;  // keep it until the response is written
};

/// Answers GET /history. Another thread reads the recording, so a slow disk delays this connection
/// only. If the client no longer waits, nothing is read.
/// Thread: the hub's I/O thread only. `stream` and `context` outlive the coroutine.
net::awaitable<HistoryAnswer> ask_history(beast::tcp_stream& stream, Context& context,
                                          HttpRequest request);

}  // namespace tt::hub
