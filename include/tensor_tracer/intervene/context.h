#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/graph/program.h"
#include "tensor_tracer/trace/vectors.h"

namespace tt::intervene {

/// Keeps the programs that were compiled last; see src/intervene/program_cache.h.
class ProgramCache;
std::shared_ptr<ProgramCache> make_program_cache();

/// The text of each token id, from 0; empty: the id has none.
using TokenTexts = std::vector<std::string>;
/// Of ids that are bytes.
std::shared_ptr<const TokenTexts> texts_of_bytes();

/// Facts of the run, to check programs. Libraries may be null; they outlive the context. Thread:
/// any.
struct Context {
  graph::Model model;
  trace::VectorLibrary* vectors = nullptr;
  trace::TensorFiles* files = nullptr;
  int tensor_ranks = 1;
  int tensor_rank = 0;  // this rank
  std::int64_t micro_batch_size = 1;
  std::int64_t seq_length = 1;
  std::int64_t micro_batches = 1;  // of a step
  std::int64_t head_size = 1;
  at::ScalarType dtype = at::kFloat;  // of activations, and of weights in the forward
  at::Device device = at::kCPU;       // of both
  std::uint64_t seed = 0;
  /// What `token_text` is compared with; null: not known, and token_text is refused.
  std::shared_ptr<const TokenTexts> token_texts = texts_of_bytes();
  /// The programs compiled for this run. Copies of the context share the cache.
  std::shared_ptr<ProgramCache> programs = make_program_cache();

  const points::PlaceTable& places() const { return *model.places; }
};

/// Answers protocol::CheckProgram: the effects of the program in this run, or the error that
/// refuses it. Checks names, order and limits, and the shapes and dtypes of a training forward on
/// tensors without data. It needs no other rank and runs nothing. Thread: any.
base::Result<nlohmann::json> check_program(const nlohmann::json& program, const Context& context);

/// Error: a program that passed check_program() cannot act in a generation, whose passes are over
/// one token of each row. Thread: any.
base::Status check_generation(const nlohmann::json& program, const Context& context);

}  // namespace tt::intervene
