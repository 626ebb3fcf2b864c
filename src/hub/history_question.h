#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>

#include "src/hub/context.h"
#include "src/hub/net.h"

namespace tt::hub {

struct HistoryAnswer {
  HttpResponse response;
  std::shared_ptr<HistoryLoad::Part> held;  // to be kept until the response is written
};

/// Answers GET /history. The recording is read on its own thread: a slow disk holds up this
/// connection only, and what its client does not wait for any more is not read.
/// Thread: the hub's I/O thread only. `stream` and `context` outlive the coroutine.
net::awaitable<HistoryAnswer> ask_history(beast::tcp_stream& stream, Context& context,
                                          HttpRequest request);

}  // namespace tt::hub
