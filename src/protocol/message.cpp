#include "tensor_tracer/protocol/message.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tensor_tracer/protocol/json_members.h"

namespace tt::protocol {
namespace {

using nlohmann::json;

struct TooDeep {};

const char* non_finite_name(double value) {
  if (std::isnan(value)) return "NaN";
  return value > 0 ? "Infinity" : "-Infinity";
}

void name_non_finite(json& value) {
  if (value.is_structured())
    for (json& member : value) name_non_finite(member);
  else if (value.is_number_float() && !std::isfinite(value.get<double>()))
    value = non_finite_name(value.get<double>());
}

std::uint64_t valid_id(const json& object) {
  const std::uint64_t id = natural(object, "id").value_or(0);
  return id <= kMaxMessageId ? id : 0;
}

Message request_from(json&& object) {
  const std::uint64_t id = valid_id(object);
  if (id == 0)
    return Malformed{0, invalid_request("a request needs an integer from 1 to 2^53-1", "id")};
  if (base::Status known = check_members(object, {"id", "method", "params"}); !known.ok())
    return Malformed{id, invalid_request(known.error().message, known.error().where)};
  Request request{.id = id, .method = text_of(object, "method")};
  if (request.method.empty())
    return Malformed{id, invalid_request("a request needs a text", "method")};
  if (const auto params = object.find("params"); params != object.end()) {
    if (!params->is_object()) return Malformed{id, invalid_request("must be an object", "params")};
    request.params = std::move(*params);
  }
  return request;
}

Message answer_from(json&& object) {
  const std::uint64_t id = valid_id(object);
  if (const auto error = object.find("error"); error != object.end()) {
    if (!error->is_object()) return Malformed{id, invalid_request("must be an object", "error")};
    // Id 0 marks the answer to a message whose id could not be read.
    return Answer{id, base::Error{.code = text_of(*error, "code"),
                                  .message = text_of(*error, "message"),
                                  .where = text_of(*error, "where"),
                                  .remedy = text_of(*error, "remedy")}};
  }
  if (id == 0)
    return Malformed{0, invalid_request("an answer needs an integer from 1 to 2^53-1", "id")};
  return Answer{id, std::move(object["result"])};
}

Message notification_from(json&& object) {
  Notification notification{.event = text_of(object, "event")};
  if (notification.event.empty()) return Malformed{0, invalid_request("must be a text", "event")};
  if (const auto params = object.find("params"); params != object.end()) {
    if (!params->is_object()) return Malformed{0, invalid_request("must be an object", "params")};
    notification.params = std::move(*params);
  }
  return notification;
}

}  // namespace

base::Error invalid_request(std::string message, std::string where) {
  return {.code = "invalid_request", .message = std::move(message), .where = std::move(where)};
}

base::Result<json> parse_json(std::string_view text, const TextLimits& limits) {
  if (text.size() > limits.bytes) {
    return base::Error{.code = "too_large",
                       .message = std::to_string(text.size()) + " bytes, more than " +
                                  std::to_string(limits.bytes)};
  }
  const auto check_depth = [&](int outer, json::parse_event_t event, json& /*value*/) {
    const bool opens =
        event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    if (opens && static_cast<std::size_t>(outer) >= limits.depth) throw TooDeep();
    return true;
  };
  try {
    return json::parse(text, check_depth);
  } catch (const TooDeep&) {
    return base::Error{.code = "too_large",
                       .message = "nested deeper than " + std::to_string(limits.depth)};
  } catch (const json::parse_error& failure) {
    return invalid_request("not JSON: byte " + std::to_string(failure.byte) + " does not fit");
  } catch (const json::out_of_range&) {
    return invalid_request("a number does not fit a float64");
  }
}

std::string encode_json(json value) {
  name_non_finite(value);
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

Message parse_message(std::string_view text, const TextLimits& limits) {
  base::Result<json> parsed = parse_json(text, limits);
  if (!parsed) return Malformed{0, parsed.error()};
  json object = std::move(parsed).value();
  if (!object.is_object()) return Malformed{0, invalid_request("a message is a JSON object")};
  if (object.contains("method")) return request_from(std::move(object));
  if (object.contains("result") || object.contains("error")) return answer_from(std::move(object));
  if (object.contains("event")) return notification_from(std::move(object));
  return Malformed{valid_id(object),
                   invalid_request("a message has a method, a result, an error or an event")};
}

std::string encode_request(std::uint64_t id, std::string_view method, json params) {
  return encode_json({{"id", id}, {"method", method}, {"params", std::move(params)}});
}

std::string encode_result(std::uint64_t id, json result) {
  return encode_json({{"id", id}, {"result", std::move(result)}});
}

std::string encode_error(std::uint64_t id, const base::Error& error) {
  return encode_json({{"id", id},
                      {"error",
                       {{"code", error.code},
                        {"message", error.message},
                        {"where", error.where},
                        {"remedy", error.remedy}}}});
}

std::string encode_answer(std::uint64_t id, base::Result<json> outcome) {
  return outcome.ok() ? encode_result(id, std::move(outcome).value())
                      : encode_error(id, outcome.error());
}

std::string encode_notification(std::string_view event, json params) {
  return encode_json({{"event", event}, {"params", std::move(params)}});
}

base::Status check_members(const json& object, std::initializer_list<std::string_view> known) {
  if (!object.is_object()) return base::invalid_argument("", "must be an object");
  for (const auto& [name, value] : object.items())
    if (std::find(known.begin(), known.end(), name) == known.end())
      return base::invalid_argument(name.substr(0, 64), "this member is not known");
  return {};
}

}  // namespace tt::protocol
