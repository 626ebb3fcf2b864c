#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/trace/catalogue.h"

namespace tt::trace {

enum class Phase : std::uint8_t { kTrain = 0, kEval = 1 };
enum class WireDtype : std::uint8_t { kF64 = 1, kF32 = 2, kBf16 = 4, kI32 = 5 };

/// Limits of what a plan may ask for; each has a test.
struct PlanLimits {
  std::size_t max_entries = 64;
  std::int64_t max_every = 1'000'000;
};

/// One line of a trace plan: a point, where and when it is taken, and what of it travels.
struct PlanEntry {
  std::size_t point = 0;          // index in the catalogue
  std::string layers;             // as written; empty: all
  std::vector<bool> takes_layer;  // by global layer number, from 0
  std::int64_t every = 1;
  bool in_train = true;
  bool in_eval = false;
  std::int64_t rows = 1;   // of the micro-batch; 0: all
  std::int64_t tiles = 0;  // 0: compressor "none"
  WireDtype dtype = WireDtype::kF32;

  bool takes(std::int64_t step, Phase phase) const {
    return step % every == 0 && (phase == Phase::kTrain ? in_train : in_eval);
  }
};

/// What is captured, under a number that every rank and every record names. Immutable once parsed.
struct Plan {
  std::uint32_t number = 0;
  std::vector<PlanEntry> entries;
};

/// Reads and checks the JSON form of docs/protocol.md, "Trace plan". Nothing of a wrong plan is
/// taken. `number` becomes the plan's number, whatever the text says.
base::Result<Plan> parse_plan(const nlohmann::json& text, const Catalogue& catalogue,
                              std::uint32_t number, const PlanLimits& limits = {});

/// The same form, complete: defaults are written out.
nlohmann::json to_json(const Plan& plan, const Catalogue& catalogue);

/// What is watched when nobody asked for anything else: HiddenStates of all layers and the tokens.
nlohmann::json default_plan();

}  // namespace tt::trace
