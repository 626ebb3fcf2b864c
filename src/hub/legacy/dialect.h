#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/protocol/json_members.h"

/// The JSON dialects of Tensor Tracer and of MegaScope's training mode: docs/protocol.md, "Legacy
/// dialects". Does not use sockets. Any thread may call the functions here.
namespace tt::hub::dialect {

using protocol::member;

enum class Dialect : std::uint8_t { kTensorTracer, kMegaScope };

/// A trace point that has a flag in a dialect.
struct KnownPoint {
  std::string_view flag_name;   // in visualization_flags
  std::string_view point;       // in a native plan
  bool on_by_default = false;   // if the flag is missing
  std::string_view tiles = {};  // MegaScope: the member of compressor_config for this point
};

/// The points, in the order in which a forward reaches them.
std::span<const KnownPoint> points_of(Dialect dialect);

/// True if the message has the form of both dialects: an object with a text `type` and no `method`.
bool is_legacy(const nlohmann::json& message);

/// The dialect of a message with flags and compressors.
Dialect dialect_of(const nlohmann::json& message);

/// Reads a switch of either dialect: it is on if it is true, or the text "true" in any letter case.
bool is_on(const nlohmann::json& value);
}  // namespace tt::hub::dialect
