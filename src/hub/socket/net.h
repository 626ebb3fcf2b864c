#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <optional>

#include "tensor_tracer/base/scoped_fd.h"

/// Short names of Asio and Beast for the hub's socket files.
namespace tt::hub {
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace net = boost::asio;
namespace websocket = boost::beast::websocket;
using tcp = boost::asio::ip::tcp;
using HttpRequest = http::request<http::string_body>;
using HttpResponse = http::response<http::string_body>;

/// Nothing if it is not a TCP socket. Thread: any.
std::optional<tcp::endpoint> local_endpoint(const base::ScopedFd& socket);
}  // namespace tt::hub
