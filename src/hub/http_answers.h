#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/hub/auth.h"
#include "src/hub/context.h"
#include "src/hub/net.h"
#include "tensor_tracer/hub/server.h"

/// Which HTTP request gets which answer: docs/protocol.md, "Connecting". Knows no sockets.
namespace tt::hub {

/// The answer that refuses this request, or nothing if Host and Origin are in order. Every request
/// passes here first.
std::optional<HttpResponse> refuse_foreign(const HttpRequest& request, const Access& access);

/// The request's target without its query.
std::string_view path_of(const HttpRequest& request);

/// The role that an upgrade asks for by its path, or nothing.
std::optional<Role> role_of(const HttpRequest& request);

/// The rights of the request's token in `role`, or nothing if it carries no such token. The first
/// of Bearer, `?token=` and cookie that is there decides; workers have Bearer only.
std::optional<Right> right_of(const HttpRequest& request, Role role, const ServerOptions& options);

/// The answer to a request without a right token, counted.
HttpResponse refuse_token(const HttpRequest& request, Context& context);

/// True if the request reads the recording, and may.
bool asks_history(const HttpRequest& request, const ServerOptions& options);

/// The answer to any other request that is no upgrade.
HttpResponse answer_plain(const HttpRequest& request, Context& context);

/// One line of plain text.
HttpResponse refusal(const HttpRequest& request, http::status status, const std::string& why);

HttpResponse make_answer(const HttpRequest& request, http::status status,
                         std::string_view content_type, std::string body);

}  // namespace tt::hub
