#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "src/hub/legacy/dialect.h"
#include "tensor_tracer/protocol/record.h"

/// The hub's messages in the legacy dialects.
namespace tt::hub::dialect {

std::string pong_text();
std::string error_text(const base::Error& error);
std::string start_text(const nlohmann::json& facts);
/// REQUIRES: the dialect has the record's point and dtype.
std::string update_text(Dialect dialect, const protocol::RecordView& record);

}  // namespace tt::hub::dialect
