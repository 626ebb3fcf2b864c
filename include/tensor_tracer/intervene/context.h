#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/graph/program.h"
#include "tensor_tracer/trace/vectors.h"

namespace tt::intervene {

/// The programs that were compiled last; src/intervene/program_cache.h.
class ProgramCache;
std::shared_ptr<ProgramCache> make_program_cache();

/// The run that programs are checked against. Libraries may be null and outlive it. Thread: any.
struct Context {
  graph::Model model;
  trace::VectorLibrary* vectors = nullptr;
  trace::TensorFiles* files = nullptr;
  int tensor_ranks = 1;
  int tensor_rank = 0;  // this one's
  std::int64_t micro_batch_size = 1;
  std::int64_t seq_length = 1;
  std::int64_t micro_batches = 1;   // of a step
  std::int64_t prompt_batches = 0;  // of all prompt sets
  std::int64_t head_size = 1;
  at::ScalarType dtype = at::kFloat;  // of activations, and of weights as a forward uses them
  std::uint64_t seed = 0;
  /// What was compiled for this run; copies share it.
  std::shared_ptr<ProgramCache> programs = make_program_cache();

  const points::PlaceTable& places() const { return *model.places; }
};

/// Answers protocol::CheckProgram: what the program would do in this run, or why
/// it is refused. Names, order and limits, and shapes and dtypes on tensors without data for a
/// training forward; no rank is asked and nothing is run. Thread: any.
base::Result<nlohmann::json> check_program(const nlohmann::json& program, const Context& context);

}  // namespace tt::intervene
