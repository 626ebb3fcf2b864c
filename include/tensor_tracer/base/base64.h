#pragma once

#include <string>
#include <string_view>

namespace tt::base {

/// The bytes in Base64 with padding (RFC 4648, 4). Thread: any.
std::string to_base64(std::string_view bytes);

}  // namespace tt::base
