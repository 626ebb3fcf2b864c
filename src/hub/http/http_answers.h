#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/hub/http/auth.h"
#include "src/hub/process/context.h"
#include "src/hub/socket/net.h"
#include "tensor_tracer/hub/server.h"

/// Selects the answer to each HTTP request: docs/protocol.md, "Connecting". Does not use sockets.
namespace tt::hub {

/// The answer that refuses this request; nothing if Host and Origin are allowed. Every request is
/// checked here first.
std::optional<HttpResponse> refuse_foreign(const HttpRequest& request, const Access& access);

/// The request's target without its query.
std::string_view path_of(const HttpRequest& request);

/// The role that the path of an upgrade asks for, or nothing.
std::optional<Role> role_of(const HttpRequest& request);

/// The rights of the request's token in `role`; nothing if the request has no valid token. The
/// first one present of Bearer, `?token=` and cookie decides; workers may use Bearer only.
std::optional<Right> right_of(const HttpRequest& request, Role role, const ServerOptions& options);

/// The answer to a request without a valid token. Counts the failure.
HttpResponse refuse_token(const HttpRequest& request, Context& context);

/// True if the request reads the recording and is allowed to.
bool asks_history(const HttpRequest& request, const ServerOptions& options);

/// The answer to any other request that is not an upgrade.
HttpResponse answer_plain(const HttpRequest& request, Context& context);

/// An answer with one line of plain text.
HttpResponse refusal(const HttpRequest& request, http::status status, const std::string& why);

HttpResponse make_answer(const HttpRequest& request, http::status status,
                         std::string_view content_type, std::string body);

}  // namespace tt::hub
