#include "src/hub/http/http_answers.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "src/hub/http/auth.h"
#include "src/hub/http/history.h"
#include "src/hub/http/page.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::hub {
namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kMetrics = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kText = "text/plain; charset=utf-8";
constexpr protocol::TextLimits kAuthLimits{.bytes = 4096, .depth = 2};

}  // namespace

std::string_view path_of(const HttpRequest& request) {
  const std::string_view target = request.target();
  return target.substr(0, target.find('?'));
}

namespace {

// REQUIRES: is_host(host): such a host cannot end a source or a directive of the policy.
std::string content_policy(std::string_view host) {
  return "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
         "worker-src 'self' blob:; connect-src 'self' ws://" +
         std::string(host) +
         "; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; object-src 'none'";
}

// Always compares both tokens, so that the time reveals neither of them.
std::optional<Right> viewer_right(std::string_view token, const ServerOptions& options) {
  const bool controls = equal_constant_time(token, options.token);
  const bool views = equal_constant_time(token, options.viewer_token);
  if (token.empty() || (!controls && !views)) return std::nullopt;
  return controls ? Right::kControl : Right::kView;
}

HttpResponse refuse_auth(const HttpRequest& request, Context& context) {
  ++context.room.metrics().auth_failures;
  const auto now = Clock::now();
  if (!context.auth_failures.too_many(now))
    return refusal(request, http::status::unauthorized, "this is not the run's token");
  ++context.room.metrics().rate_limited;
  HttpResponse response =
      refusal(request, http::status::too_many_requests, "too many wrong tokens: wait");
  response.set(http::field::retry_after,
               std::to_string(context.auth_failures.retry_after(now).count()));
  return response;
}

HttpResponse answer_auth(const HttpRequest& request, Context& context) {
  const auto body = protocol::parse_json(request.body(), kAuthLimits);
  const std::string token = body.ok() ? protocol::text_of(body.value(), "token") : "";
  if (!viewer_right(token, context.options)) return refuse_auth(request, context);
  HttpResponse response = make_answer(request, http::status::no_content, kText, "");
  response.set(http::field::set_cookie, "tt-" + context.options.run_id + "=" + token +
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

HttpResponse answer_ready(const HttpRequest& request, Context& context) {
  const base::Status ready = context.room.ready(Clock::now(), context.options.ready_timeout);
  if (ready.ok()) return make_answer(request, http::status::ok, kJson, R"({"ready":true})");
  const nlohmann::json why = {
      {"ready", false}, {"reason", ready.error().code}, {"message", ready.error().message}};
  return make_answer(request, http::status::service_unavailable, kJson, why.dump());
}

HttpResponse answer_metrics(const HttpRequest& request, Context& context) {
  const auto now = Clock::now();
  ProcessFacts process = read_process_facts();
  process.uptime_seconds = std::chrono::duration<double>(now - context.started).count();
  return make_answer(request, http::status::ok, kMetrics,
                     render_metrics(context.room.metrics(), context.room.survey(now), process));
}

}  // namespace

HttpResponse refusal(const HttpRequest& request, http::status status, const std::string& why) {
  return make_answer(request, status, kText, why + "\n");
}

HttpResponse make_answer(const HttpRequest& request, http::status status,
                         std::string_view content_type, std::string body) {
  HttpResponse response{status, request.version()};
  const std::string_view host = request[http::field::host];
  response.keep_alive(request.keep_alive() && status < http::status::bad_request);
  response.set(http::field::content_type, content_type);
  response.set(http::field::cache_control, "no-store");
  response.set("Content-Security-Policy", content_policy(is_host(host) ? host : "localhost"));
  response.set("X-Content-Type-Options", "nosniff");
  response.set("Referrer-Policy", "no-referrer");
  response.set("Cross-Origin-Resource-Policy", "same-origin");
  const std::size_t size = body.size();
  if (request.method() != http::verb::head) response.body() = std::move(body);
  if (status != http::status::no_content) response.content_length(size);
  return response;
}

std::optional<HttpResponse> refuse_foreign(const HttpRequest& request, const Access& access) {
  const std::string_view host = request[http::field::host];
  std::optional<std::string_view> origin;
  if (const auto header = request.find(http::field::origin); header != request.end())
    origin = header->value();
  const bool doubled =
      request.count(http::field::host) != 1 || request.count(http::field::origin) > 1;
  if (doubled || !host_allowed(host, access.hosts)) {
    return refusal(
        request, http::status::forbidden,
        "Host must be localhost, 127.0.0.1 or [::1]; the hub's --allow-host adds others");
  }
  if (!origin_allowed(origin, host, access.origins)) {
    return refusal(request, http::status::forbidden,
                   "Origin must be http:// and Host; the hub's --allow-origin adds others");
  }
  return std::nullopt;
}

std::optional<Role> role_of(const HttpRequest& request) {
  // Some clients know no path.
  if (path_of(request) == "/ws" || (path_of(request) == "/" && websocket::is_upgrade(request)))
    return Role::kViewer;
  if (path_of(request) == "/worker") return Role::kWorker;
  return std::nullopt;
}

std::optional<Right> right_of(const HttpRequest& request, Role role, const ServerOptions& options) {
  auto token = bearer_token(request[http::field::authorization]);
  if (role == Role::kWorker) {
    const bool works =
        token && !token->empty() && equal_constant_time(*token, options.worker_token);
    return works ? std::optional(Right::kWork) : std::nullopt;
  }
  if (!token) token = query_value(request.target(), "token");
  if (!token) token = cookie_value(request[http::field::cookie], "tt-" + options.run_id);
  const auto right = viewer_right(token.value_or(""), options);
  return right || options.access.viewers_need_token ? right : std::optional(Right::kControl);
}

HttpResponse refuse_token(const HttpRequest& request, Context& context) {
  ++context.room.metrics().auth_failures;
  return refusal(request, http::status::unauthorized, "a token is needed");
}

bool asks_history(const HttpRequest& request, const ServerOptions& options) {
  return is_history(path_of(request)) && request.method() == http::verb::get &&
         right_of(request, Role::kViewer, options).has_value();
}

namespace {

HttpResponse refuse_method(const HttpRequest& request, std::string_view allowed) {
  HttpResponse response =
      refusal(request, http::status::method_not_allowed, std::string(allowed) + " only");
  response.set(http::field::allow, allowed);
  return response;
}

}  // namespace

HttpResponse answer_plain(const HttpRequest& request, Context& context) {
  const std::string_view path = path_of(request);
  const bool needs_token = path == "/readyz" || path == "/metrics" || is_history(path);
  const auto role = needs_token ? std::optional(Role::kViewer) : role_of(request);
  if (role && !right_of(request, *role, context.options)) return refuse_token(request, context);
  if (role && !needs_token) {
    HttpResponse response = refusal(request, http::status::upgrade_required, "this is a WebSocket");
    response.set(http::field::upgrade, "websocket");
    return response;
  }
  const bool reads = request.method() == http::verb::get || request.method() == http::verb::head;
  if (path == "/auth") {
    return request.method() == http::verb::post ? answer_auth(request, context)
                                                : refuse_method(request, "POST");
  }
  if (!reads || is_history(path))  // GET /history is answered elsewhere
    return refuse_method(request, is_history(path) ? "GET" : "GET, HEAD");
  if (path == "/healthz")
    return make_answer(request, http::status::ok, kJson, R"({"status":"ok"})");
  if (path == "/readyz") return answer_ready(request, context);
  if (path == "/metrics") return answer_metrics(request, context);
  return answer_page(request, context.options);
}

}  // namespace tt::hub
