#pragma once

#include <ATen/TensorIndexing.h>
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/intervene/noise.h"
#include "src/intervene/places.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/eval/program.h"
#include "tensor_tracer/graph/program.h"
#include "tensor_tracer/intervene/context.h"
#include "tensor_tracer/trace/file_contents.h"

namespace tt::intervene {

using Indices = std::vector<at::indexing::TensorIndex>;

/// Reads a place's tensor when the forward reaches the place, or with ref.gradient when the
/// backward does.
struct Getter {
  PlaceRef ref;
  std::optional<Indices> heads;
  std::size_t value = 0;  // index in the program; the getter belongs to its line
  std::int64_t moment = 0;
  std::size_t key = 0;
};

/// The source of one input of a value.
struct Source {
  enum class Kind { kGetter, kValue, kParameter, kConstant, kNoise, kSaved };
  Kind kind = Kind::kGetter;
  std::size_t index = 0;  // of the getter, value, parameter or noise
  at::Tensor constant = {};
  std::string name = {};  // kSaved
};

struct NoiseSource {
  NoiseKind kind;
  PlaceRef ref;
};

/// A part of the model that a value is the result of.
enum class Module : std::uint8_t { kNone, kFinalNorm, kOutputLayer };

/// A compiled value of the program. Its inputs are `sources`. With `is_local` it runs on shards and
/// the result has `placement`; otherwise every rank runs it on logical tensors. The facts describe
/// logical tensors.
struct CompiledValue : eval::ProgramFacts {
  std::optional<eval::Program> program;  // nullopt: a call of `module`
  Module module = Module::kNone;
  std::vector<Source> sources;
  bool is_local = false;
  mesh::Placement placement;
  bool is_plain = true;            // uses only parameters and constants
  bool meets_shards = false;       // uses places whose strides depend on the mesh
  bool may_change = false;         // uses weights or gradients, which other code writes in place
  std::int64_t moment = -1;        // of the latest input; -1: before the first place
  std::size_t key = 0;             // of the place at this moment
  std::vector<std::string> saved;  // names of saves that it waits for
};

/// How a write computes its new tensor.
enum class WritePath : std::uint8_t {
  kShards,    // value and place have the same sharding, or are whole on every rank
  kFilled,    // one number is written to a part of the shard
  kGathered,  // the logical tensor is gathered, written and sharded again
};

struct Write {
  std::size_t effect = 0;
  PlaceRef ref;
  std::optional<Indices> heads;
  std::optional<Indices> index;
  WritePath path = WritePath::kShards;
  at::Tensor region;           // bool, logical: elements of heads and index; undefined: all
  std::int64_t positions = 0;  // number of tokens in the region
  std::int64_t moment = 0;
  std::size_t key = 0;
};

/// A program compiled for one `layer` and one shape of the forward. Immutable.
struct LayerSpecialization {
  int layer = 0;
  Shape shape;
  std::vector<Getter> getters;
  std::vector<NoiseSource> noises;
  std::vector<CompiledValue> values;  // by index of the program's value
  std::vector<Write> writes;          // in source order
};

/// Checks shapes and dtypes on tensors without data. Errors as in expr::to_error(). Files that are
/// missing in `contents` are read, each once, so that all layers and shapes use the same contents.
base::Result<LayerSpecialization> specialize_layer(const graph::Program& program,
                                                   const Context& context, const Shape& shape,
                                                   int layer, trace::FileContents& contents);

/// The layers that a program is compiled for; only 0 if no line uses `layer`.
std::vector<int> layers_of(const graph::Program& program);

/// The indices of a subscript, after `whole_dims` full dims. REQUIRES: integers, slices, ellipsis,
/// lists of integers.
Indices read_indices(const expr::Ast& ast, expr::NodeId subscript, std::size_t whole_dims);

/// [batch, sequence, features] as [batch, sequence, heads, head size]; a view.
at::Tensor by_heads(const at::Tensor& x, std::int64_t head_size);

}  // namespace tt::intervene
