#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/protocol/json_members.h"

/// The JSON dialects of Tensor Tracer and of MegaScope's training mode: docs/protocol.md, "Legacy
/// dialects". Knows no sockets; all functions here may be called by any thread.
namespace tt::hub::dialect {

using protocol::member;

enum class Dialect : std::uint8_t { kTensorTracer, kMegaScope };

/// A trace point that a dialect has a flag for.
struct KnownPoint {
  std::string_view flag_name;   // in visualization_flags
  std::string_view point;       // in a native plan
  std::uint16_t flag = 0;       // native, and `update_type`
  bool on_by_default = false;   // where the flag is missing
  std::string_view tiles = {};  // MegaScope: the member of compressor_config that it obeys
};

/// In the order in which a forward pass meets them.
std::span<const KnownPoint> points_of(Dialect dialect);

/// True for the form of both dialects' messages: an object with a text `type` and no `method`.
bool is_legacy(const nlohmann::json& message);

/// Which of the two a message with flags and compressors speaks.
Dialect dialect_of(const nlohmann::json& message);

/// A switch of either dialect: true, or the text "true" in any case.
bool is_on(const nlohmann::json& value);
}  // namespace tt::hub::dialect
