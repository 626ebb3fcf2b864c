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
#include "tensor_tracer/points/prompt_sets.h"
#include "tensor_tracer/protocol/record.h"
#include "tensor_tracer/trace/compressor.h"
#include "tensor_tracer/trace/file_contents.h"

namespace tt::trace {

enum class Phase : std::uint8_t {
  kTrain = 0,
  kEval = 1,
  /// A response to a prompt: a pass over one token after another, which is not traced, or one over
  /// prompt and response together. Outside a prompt set, `when` of programs does not count.
  kGeneration = 2,
};

/// The tokens whose mean an entry takes. In training there are none: kNothing.
enum class MeanOver : std::uint8_t { kNothing, kPrompt, kLastPrompt, kResponse };

/// The position of one forward pass in the run.
struct ForwardScope {
  std::int64_t step = 1;
  std::int64_t micro_batch = 0;
  std::int64_t first_row = 0;  // of the micro-batch, in the global batch
  Phase phase = Phase::kTrain;
  std::uint32_t prompt_set = 0;  // 0: the run's own data
  std::int64_t batch = 0;        // of an evaluation, or the pass of a generation; from 0
  bool recomputes = false;       // layers run again in the backward pass
  int stage = 0;                 // the virtual pipeline stage whose places this pass reaches
  bool is_copy = false;          // data replica 0 runs the same forward, and counts it
};

/// Limits of a plan and of its expressions; each limit has a test.
struct PlanLimits {
  std::size_t max_entries = 64;
  std::int64_t max_every = 1'000'000;
  double max_entry_seconds = 1.0;                // of CPU time in one pass, on one rank
  std::size_t max_pass_bytes = 64U << 20U;       // of records per pass; fits the link's queue
  std::size_t max_gathered_bytes = 512U << 20U;  // that the ranks of a tensor group send for a pass
  eval::Limits expression = {.max_cost = 1e9};   // of a method, per capture
};

/// Facts of the run, to check a plan. `vectors` outlives the context.
struct PlanContext {
  std::shared_ptr<const points::PlaceTable> places;
  int tensor_ranks = 1;
  std::int64_t micro_batches = 1;     // of a step
  std::int64_t micro_batch_size = 1;  // batch rows
  std::int64_t seq_length = 1;
  VectorLibrary* vectors = nullptr;  // null: the run has no vectors
  points::PromptSets prompt_sets = points::PromptSets();
  std::int64_t response_tokens = 0;  // of a response to a monitored prompt; 0: there are none
  PlanLimits limits = {};
};

/// One entry of a trace plan: a trace point, the layers and passes in which it is captured, and the
/// part of the tensor that is sent.
struct PlanEntry {
  std::size_t point = 0;  // row of the place table
  bool enabled = true;
  bool gradient = false;
  std::string layers;             // as written; empty: all
  std::vector<bool> takes_layer;  // by global layer number, from 0
  std::int64_t every = 1;
  bool in_train = true;
  bool in_eval = false;
  bool all_eval_forwards = false;           // false: only the first micro-batch of the first batch
  std::string micro_batches = "0";          // as written
  std::vector<bool> takes_micro_batch;      // by number, while training
  std::uint32_t prompt_set = 0;             // 0: the run's own data
  points::PromptShape prompts;              // of the prompt set; with `responses` of both together
  bool responses = false;                   // takes prompts with the model's responses
  MeanOver mean_over = MeanOver::kNothing;  // kNothing: takes each token
  std::int64_t first_row = 0;               // of the micro-batch
  std::optional<std::int64_t> end_row = 1;  // exclusive; nullopt: to the last row
  std::optional<std::pair<std::int64_t, std::int64_t>> tokens;  // [first, end); nullopt: all
  std::shared_ptr<const Compressor> compressor;
  protocol::Dtype dtype = protocol::Dtype::kF32;

  bool takes(const ForwardScope& scope) const;
  /// True for an entry whose values the hub compares with a baseline.
  bool takes_means() const { return enabled && mean_over != MeanOver::kNothing; }
};

/// The list of entries that are captured. All ranks and all records use the plan's number.
/// Immutable after parsing.
struct Plan {
  std::uint32_t number = 0;
  std::vector<PlanEntry> entries;
};

/// Reads and checks the JSON form of docs/protocol.md, "Trace plan". A plan with an error is
/// refused as a whole. `number` becomes the plan's number; a number in the text is ignored.
base::Result<Plan> parse_plan(const nlohmann::json& text, const PlanContext& context,
                              std::uint32_t number);

/// The same JSON form with all defaults written out.
nlohmann::json to_json(const Plan& plan, const PlanContext& context);

/// The contents of the files that a plan names.
FileContents contents_of(const Plan& plan);

/// The default plan of a run: the input tokens, HiddenStates of all layers, and their projections
/// on the run's vectors, for the training data and for every prompt set; of prompts also at their
/// last token, and of responses the mean, if a plan has room for these. For the last 64 tokens of
/// every prompt set, every 10 steps: the logit lens of all layers, and entropy, largest score and
/// share of the first token of all attention heads, if a pass may send them too. If a pass may not
/// send HiddenStates of all tokens, the plan takes the first half of the tokens, or fewer.
nlohmann::json default_plan(const PlanContext& context);

}  // namespace tt::trace
