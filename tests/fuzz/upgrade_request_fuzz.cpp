// Bytes of a connection → an HTTP request → who may upgrade, and what everybody else is answered.
#include <sstream>
#include <string>
#include <vector>

#include "src/hub/http/auth.h"
#include "src/hub/http/history.h"
#include "src/hub/http/http_answers.h"
#include "src/hub/http/query.h"
#include "src/hub/process/context.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace tt::hub;
using tt::fuzz::require;

// As in src/hub/http/http_session.cpp.
constexpr std::uint32_t kMaxHeaderBytes = 8 * 1024;
constexpr std::uint64_t kMaxBodyBytes = 4 * 1024;

constexpr const char* kToken = "viewer-token";
constexpr const char* kWorkerToken = "worker-token";

ServerOptions make_options() {
  ServerOptions options;
  options.run_id = "5f0c1234abcd5678";
  options.token = kToken;
  options.viewer_token = "watcher-token";
  options.worker_token = kWorkerToken;
  return options;
}

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

/// The request that starts the input, if a whole one does.
std::optional<HttpRequest> parse(std::string_view input) {
  http::request_parser<http::string_body> parser;
  parser.header_limit(kMaxHeaderBytes);
  parser.body_limit(kMaxBodyBytes);
  parser.eager(true);
  beast::error_code failure;
  while (!input.empty() && !parser.is_done()) {
    const std::size_t used = parser.put(net::buffer(input.data(), input.size()), failure);
    require(used <= input.size(), "the parser stays inside its input");
    input.remove_prefix(used);
    if (failure || used == 0) return std::nullopt;
  }
  if (!parser.is_done()) return std::nullopt;
  return parser.release();
}

/// What the hub writes must be one response, whatever the request put into its headers.
void check_response(const HttpRequest& request, const HttpResponse& response) {
  std::ostringstream text;
  text << response;
  const std::string wire = text.str();
  http::response_parser<http::string_body> parser;
  parser.eager(true);
  parser.skip(request.method() == http::verb::head);
  beast::error_code failure;
  std::size_t used = 0;
  while (!failure && !parser.is_done() && used < wire.size())
    used += parser.put(net::buffer(wire.data() + used, wire.size() - used), failure);
  require(!failure && parser.is_done() && used == wire.size(), "one response, whole");
  require(parser.get().result() == response.result(), "the status is kept");
  const auto fields = [](const HttpResponse& of) { return std::distance(of.begin(), of.end()); };
  require(fields(parser.get()) == fields(response), "no header is smuggled in");
}

bool says(std::string_view input, const HttpRequest& request, std::string_view token) {
  for (const auto& [name, value] : parse_query(view(request.target())))
    if (value == token) return true;
  return input.find(token) != std::string_view::npos;
}

void check_roles(std::string_view input, const HttpRequest& request, const ServerOptions& options) {
  for (const Role role : {Role::kViewer, Role::kWorker}) {
    const bool allowed = right_of(request, role, options).has_value();
    require(!allowed || says(input, request, role == Role::kViewer ? kToken : kWorkerToken) ||
                says(input, request, "watcher-token"),
            "no right without its token");
  }
  const auto role = role_of(request);
  if (websocket::is_upgrade(request) && role) static_cast<void>(right_of(request, *role, options));
  require(!asks_history(request, options) || right_of(request, Role::kViewer, options),
          "history needs the token");
}

void check_query(const HttpRequest& request) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : parse_query(view(request.target())))
    bytes += name.size() + value.size();
  require(bytes <= request.target().size(), "decoding makes nothing longer");
}

void check_header_values(const HttpRequest& request) {
  for (const auto& field : request) {
    const std::string_view value = view(field.value());
    const auto inside = [&](const std::optional<std::string_view>& part) {
      return !part || part->empty() ||
             (part->data() >= value.data() &&
              part->data() + part->size() <= value.data() + value.size());
    };
    require(inside(bearer_token(value)), "the token lies in its header");
    require(inside(cookie_value(value, "tt-5f0c1234abcd5678")), "the cookie lies in its header");
    require(!host_allowed(value) || value.find_first_of("/@ \t") == std::string_view::npos,
            "a host is a name and a port");
    static_cast<void>(origin_allowed(value, "localhost:8765"));
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ServerOptions options = make_options();
  Context context(options, std::make_unique<Room>(RoomOptions{}));
  const std::string_view input = tt::fuzz::as_text(data, size);
  const auto request = parse(input);
  if (!request) {
    check_response({}, make_answer({}, http::status::bad_request, "text/plain", "bad request\n"));
    return 0;
  }
  check_header_values(*request);
  check_query(*request);
  check_roles(input, *request, options);
  if (const auto refused = refuse_foreign(*request, options.access)) {
    require(refused->result() == http::status::forbidden, "foreign requests are forbidden");
    check_response(*request, *refused);
    return 0;
  }
  const HttpResponse answer = answer_plain(*request, context);
  require(answer.count(http::field::set_cookie) == 0 || input.find("token") != input.npos,
          "a cookie only for a token");
  check_response(*request, answer);
  return 0;
}
