#pragma once

#include <map>
#include <string>
#include <string_view>

namespace tt::hub {

/// The members of a request target's query ("/path?a=1&b=x%2Cy"), decoded. Of members with the same
/// name the first one counts.
/// Thread: any.
std::map<std::string, std::string> parse_query(std::string_view target);

}  // namespace tt::hub
