#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/eval/limits.h"
#include "tensor_tracer/points/place_table.h"
#include "tensor_tracer/protocol/record.h"
#include "tensor_tracer/trace/compressor.h"
#include "tensor_tracer/trace/file_contents.h"

namespace tt::trace {

enum class Phase : std::uint8_t { kTrain = 0, kEval = 1 };

/// Where one forward pass stands in the run.
struct ForwardScope {
  std::int64_t step = 1;
  std::int64_t micro_batch = 0;
  std::int64_t first_row = 0;  // of the micro-batch, in the global batch
  Phase phase = Phase::kTrain;
  std::uint32_t prompt_set = 0;  // 0: the run's own data
  std::int64_t batch = 0;        // of an evaluation, from 0
  bool recomputes = false;       // layers run again in the backward pass
};

/// Limits of what a plan may ask for, its expressions included; each has a test.
struct PlanLimits {
  std::size_t max_entries = 64;
  std::int64_t max_every = 1'000'000;
  double max_entry_seconds = 1.0;                // of CPU time in one pass, on one rank
  std::size_t max_pass_bytes = 64U << 20U;       // of the records of one pass: what the link holds
  std::size_t max_gathered_bytes = 512U << 20U;  // that the ranks of a tensor group give for one
  eval::Limits expression = {.max_cost = 1e9};   // of a method, for one capture
};

/// A set of monitored prompts: `rows` texts, which travel in separate passes, padded to the
/// `tokens` of the longest.
struct PromptShape {
  std::string name;
  std::int64_t rows = 1;
  std::int64_t tokens = 1;
};

/// What a plan is checked against: the run that takes it. `vectors` outlives it.
struct PlanContext {
  std::shared_ptr<const points::PlaceTable> places;
  int tensor_ranks = 1;
  std::int64_t micro_batches = 1;     // of a step
  std::int64_t micro_batch_size = 1;  // batch rows
  std::int64_t seq_length = 1;
  VectorLibrary* vectors = nullptr;      // null: the run has none
  std::vector<PromptShape> prompt_sets;  // set number n is prompt_sets[n - 1]
  PlanLimits limits = {};
};

/// One line of a trace plan: a point, where and when it is taken, and what of it travels.
struct PlanEntry {
  std::size_t point = 0;  // row of the place table
  bool enabled = true;
  bool gradient = false;
  std::string layers;             // as written; empty: all
  std::vector<bool> takes_layer;  // by global layer number, from 0
  std::int64_t every = 1;
  bool in_train = true;
  bool in_eval = false;
  bool all_eval_forwards = false;           // else the first micro-batch of the first batch
  std::string micro_batches = "0";          // as written
  std::vector<bool> takes_micro_batch;      // by number, while training
  std::uint32_t prompt_set = 0;             // 0: the run's own data
  std::int64_t first_row = 0;               // of the micro-batch
  std::optional<std::int64_t> end_row = 1;  // not included; none: to the last
  std::optional<std::pair<std::int64_t, std::int64_t>> tokens;  // [first, end); none: all
  std::shared_ptr<const Compressor> compressor;
  protocol::Dtype dtype = protocol::Dtype::kF32;

  bool takes(const ForwardScope& scope) const;
};

/// What is captured, under a number that every rank and every record names. Immutable once parsed.
struct Plan {
  std::uint32_t number = 0;
  std::vector<PlanEntry> entries;
};

/// Reads and checks the JSON form of docs/protocol.md, "Trace plan". Nothing of a wrong plan is
/// taken. `number` becomes the plan's number, whatever the text says.
base::Result<Plan> parse_plan(const nlohmann::json& text, const PlanContext& context,
                              std::uint32_t number);

/// The same form, complete: defaults are written out.
nlohmann::json to_json(const Plan& plan, const PlanContext& context);

/// The contents of the files that a plan names.
FileContents contents_of(const Plan& plan);

/// What is watched when nobody asked for anything else: HiddenStates of all layers and the tokens,
/// of the training data and of every prompt set, and their projections on the run's vectors. Of
/// HiddenStates the first half of the tokens, or less, where all are more than a pass may send.
nlohmann::json default_plan(const PlanContext& context);

}  // namespace tt::trace
