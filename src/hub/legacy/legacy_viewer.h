#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "src/hub/legacy/dialect.h"

namespace tt::hub {

/// The room's state of a viewer that speaks a legacy dialect. Thread: the hub's I/O thread only.
struct LegacyViewer {
  std::optional<dialect::Dialect> dialect;  // none: it has sent no request yet
  nlohmann::json waiting;                   // its message from before a trainer connected, or null
  bool started = false;                     // it has received `start`; updates follow

  /// The requests to the trainer that one run_training_step caused.
  struct Asked {
    std::size_t unanswered = 0;
    std::optional<base::Error> refused = {};  // the first refusal
  };
  std::map<std::uint64_t, Asked> asked = {};  // by the id of the requests
  std::uint64_t last_asked = 0;
};

}  // namespace tt::hub
