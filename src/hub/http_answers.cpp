#include "http_answers.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "auth.h"
#include "page.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::hub {
namespace {

constexpr std::string_view kText = "text/plain; charset=utf-8";
constexpr protocol::TextLimits kAuthLimits{.bytes = 4096, .depth = 2};

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

std::string_view path_of(const HttpRequest& request) {
  const std::string_view target = view(request.target());
  return target.substr(0, target.find('?'));
}

std::string content_policy(std::string_view host) {
  return "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
         "worker-src 'self' blob:; connect-src 'self' ws://" +
         std::string(host) +
         "; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; object-src 'none'";
}

HttpResponse refusal(const HttpRequest& request, http::status status, std::string text) {
  return make_answer(request, status, kText, std::move(text) + "\n");
}

HttpResponse answer_auth(const HttpRequest& request, const ServerOptions& options) {
  const auto body = protocol::parse_json(request.body(), kAuthLimits);
  const bool valid =
      body.ok() && body.value().is_object() && body.value().contains("token") &&
      body.value().at("token").is_string() &&
      equal_constant_time(body.value().at("token").get<std::string>(), options.token);
  if (!valid) {
    return refusal(request, http::status::unauthorized, "this is not the run's token");
  }
  HttpResponse response = make_answer(request, http::status::no_content, kText, "");
  response.set(http::field::set_cookie, "tt-" + options.run_id + "=" + options.token +
                                            "; Path=/; HttpOnly; SameSite=Strict");
  return response;
}

HttpResponse answer_page(const HttpRequest& request, const ServerOptions& options) {
  auto file = load_page_file(options.page_dir, path_of(request));
  if (!file) {
    return refusal(request, http::status::not_found,
                   path_of(request) == "/" ? "the page is not built: see README.md" : "not found");
  }
  return make_answer(request, http::status::ok, file->content_type, std::move(file->content));
}

}  // namespace

HttpResponse make_answer(const HttpRequest& request, http::status status,
                         std::string_view content_type, std::string body) {
  HttpResponse response{status, request.version()};
  const std::string_view host = view(request[http::field::host]);
  response.keep_alive(request.keep_alive() && status < http::status::bad_request);
  response.set(http::field::content_type,
               beast::string_view(content_type.data(), content_type.size()));
  response.set(http::field::cache_control, "no-store");
  response.set("Content-Security-Policy", content_policy(host_allowed(host) ? host : "localhost"));
  response.set("X-Content-Type-Options", "nosniff");
  response.set("Referrer-Policy", "no-referrer");
  response.set("Cross-Origin-Resource-Policy", "same-origin");
  const std::size_t size = body.size();
  if (request.method() != http::verb::head) {
    response.body() = std::move(body);
  }
  if (status != http::status::no_content) {
    response.content_length(size);
  }
  return response;
}

std::optional<HttpResponse> refuse_foreign(const HttpRequest& request) {
  const std::string_view host = view(request[http::field::host]);
  std::optional<std::string_view> origin;
  if (const auto header = request.find(http::field::origin); header != request.end()) {
    origin = view(header->value());
  }
  const bool doubled =
      request.count(http::field::host) != 1 || request.count(http::field::origin) > 1;
  if (doubled || !host_allowed(host)) {
    return refusal(request, http::status::forbidden, "Host must be localhost, 127.0.0.1 or [::1]");
  }
  if (!origin_allowed(origin, host)) {
    return refusal(request, http::status::forbidden, "Origin must be http:// and Host");
  }
  return std::nullopt;
}

std::optional<Role> role_of(const HttpRequest& request) {
  // Legacy clients know no path.
  if (path_of(request) == "/ws" || (path_of(request) == "/" && websocket::is_upgrade(request))) {
    return Role::kViewer;
  }
  if (path_of(request) == "/worker") {
    return Role::kWorker;
  }
  return std::nullopt;
}

bool has_token(const HttpRequest& request, Role role, const ServerOptions& options) {
  const std::string& expected = role == Role::kViewer ? options.token : options.worker_token;
  if (expected.empty()) {
    return false;
  }
  if (const auto token = bearer_token(view(request[http::field::authorization]))) {
    return equal_constant_time(*token, expected);
  }
  const auto cookie = cookie_value(view(request[http::field::cookie]), "tt-" + options.run_id);
  return role == Role::kViewer && cookie && equal_constant_time(*cookie, expected);
}

HttpResponse answer_plain(const HttpRequest& request, const ServerOptions& options) {
  const std::string_view path = path_of(request);
  if (const auto role = role_of(request)) {
    return has_token(request, *role, options)
               ? refusal(request, http::status::upgrade_required, "this is a WebSocket")
               : refusal(request, http::status::unauthorized, "a token is needed");
  }
  const bool reads = request.method() == http::verb::get || request.method() == http::verb::head;
  if (path == "/auth") {
    return request.method() == http::verb::post
               ? answer_auth(request, options)
               : refusal(request, http::status::method_not_allowed, "POST only");
  }
  if (!reads) {
    return refusal(request, http::status::method_not_allowed, "GET only");
  }
  if (path == "/healthz") {
    return make_answer(request, http::status::ok, "application/json", R"({"status":"ok"})");
  }
  return answer_page(request, options);
}

}  // namespace tt::hub
