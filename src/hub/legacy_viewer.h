#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "dialect/dialect.h"

namespace tt::hub {

/// What the room keeps of a viewer that speaks a legacy dialect. Thread: the hub's I/O thread only.
struct LegacyViewer {
  std::optional<dialect::Dialect> dialect;  // none: it has not asked for anything yet
  nlohmann::json waiting;                   // what it asked before a trainer came, or null
  bool started = false;                     // it has got `start`, updates follow
};

}  // namespace tt::hub
