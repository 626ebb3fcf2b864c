#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>

#include "tensor_tracer/base/result.h"

/// The text half of docs/protocol.md: one JSON object per message. Any thread may call the
/// functions here.
namespace tt::protocol {

inline constexpr int kProtocolVersion = 1;
inline constexpr std::uint64_t kMaxMessageId = (std::uint64_t{1} << 53U) - 1;

/// Limits of a text from outside. They are checked while the text is parsed.
struct TextLimits {
  std::size_t bytes = std::size_t{64} * 1024;
  std::size_t depth = 32;  // of arrays and objects; the outermost one is 1
};

/// The error of a message that does not follow docs/protocol.md. `where`: the member.
base::Error invalid_request(std::string message, std::string where = {});

/// Parses one JSON value. The error's code is "too_large" if a limit is exceeded, else
/// "invalid_request".
base::Result<nlohmann::json> parse_json(std::string_view text, const TextLimits& limits = {});

struct Request {
  std::uint64_t id = 0;
  std::string method;
  nlohmann::json params = nlohmann::json::object();
};

/// The answer to request `id`: a result, or an error.
struct Answer {
  std::uint64_t id = 0;
  std::variant<nlohmann::json, base::Error> outcome;
};

struct Notification {
  std::string event;
  nlohmann::json params = nlohmann::json::object();
};

/// A message that is no request, answer or notification. `id` is the message's id if that id is
/// valid, else 0.
struct Malformed {
  std::uint64_t id = 0;
  base::Error error;
};

using Message = std::variant<Request, Answer, Notification, Malformed>;

Message parse_message(std::string_view text, const TextLimits& limits = {});

/// Encoders. Numbers that JSON cannot write become the strings "NaN", "Infinity" and "-Infinity".
/// Bytes that are not UTF-8 become the replacement character.
std::string encode_json(nlohmann::json value);
std::string encode_request(std::uint64_t id, std::string_view method, nlohmann::json params);
std::string encode_result(std::uint64_t id, nlohmann::json result);
std::string encode_error(std::uint64_t id, const base::Error& error);
std::string encode_answer(std::uint64_t id, base::Result<nlohmann::json> outcome);
std::string encode_notification(std::string_view event, nlohmann::json params);

/// An error if `object` is not an object, or has a member that is not in `known`.
base::Status check_members(const nlohmann::json& object,
                           std::initializer_list<std::string_view> known);

}  // namespace tt::protocol
