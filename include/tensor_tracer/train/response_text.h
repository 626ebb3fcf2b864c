#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace tt::train {

/// The end and the text of a response to a prompt.
struct ResponseText {
  std::set<std::int64_t> stop_ids;  // a response ends with one of these; the same on all ranks
  /// The text of ids in UTF-8; used on global rank 0.
  std::function<std::string(const std::vector<std::int64_t>& ids)> decode;
};

}  // namespace tt::train
