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

/// Reads a place's tensor when the forward, or with ref.gradient the backward, meets it.
struct Getter {
  PlaceRef ref;
  std::optional<Indices> heads;
  std::size_t value = 0;  // of the program, whose line it belongs to
  std::int64_t moment = 0;
  std::size_t key = 0;
};

/// Where one input of a value comes from.
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

/// A compiled value of the program. It runs on its sources: with `is_local` on shards, and the
/// result has `placement`; else on logical tensors, on every rank alike. The facts are those of
/// logical tensors.
struct CompiledValue : eval::ProgramFacts {
  std::optional<eval::Program> program;
  std::vector<Source> sources;
  bool is_local = false;
  mesh::Placement placement;
  bool is_plain = true;            // of parameters and constants only
  bool meets_shards = false;       // of places whose strides depend on the mesh
  bool may_change = false;         // of weights or gradients, which others write in place
  std::int64_t moment = -1;        // when its latest input is there; -1: at once
  std::size_t key = 0;             // of the place that is met then
  std::vector<std::string> saved;  // names it waits for
};

/// How a write gets its new tensor.
enum class WritePath : std::uint8_t {
  kShards,    // value and place are sharded alike, or whole on every rank
  kFilled,    // one number goes to a part of the shard
  kGathered,  // the logical tensor is gathered, written and sharded again
};

struct Write {
  std::size_t effect = 0;
  PlaceRef ref;
  std::optional<Indices> heads;
  std::optional<Indices> index;
  WritePath path = WritePath::kShards;
  at::Tensor region;           // bool, logical: what heads and index select; undefined: all
  std::int64_t positions = 0;  // tokens that the region reaches
  std::int64_t moment = 0;
  std::size_t key = 0;
};

/// A program for one `layer` and one shape of the forward. Immutable.
struct LayerSpecialization {
  int layer = 0;
  Shape shape;
  std::vector<Getter> getters;
  std::vector<NoiseSource> noises;
  std::vector<CompiledValue> values;  // by value of the program
  std::vector<Write> writes;          // in source order
};

/// Checks shapes and dtypes on tensors without data. Errors as in expr::to_error(). Files that are
/// missing in `contents` are read, each once, so that all layers and shapes see the same.
base::Result<LayerSpecialization> specialize_layer(const graph::Program& program,
                                                   const Context& context, const Shape& shape,
                                                   int layer, trace::FileContents& contents);

/// The layers that a program is compiled for: 0 alone where no line says `layer`.
std::vector<int> layers_of(const graph::Program& program);

/// The indices of a subscript, after `whole_dims` dims that are taken whole. REQUIRES: integers,
/// slices, ellipsis, lists of integers.
Indices read_indices(const expr::Ast& ast, expr::NodeId subscript, std::size_t whole_dims);

/// [batch, sequence, features] as [batch, sequence, heads, head size]; a view.
at::Tensor by_heads(const at::Tensor& x, std::int64_t head_size);

}  // namespace tt::intervene
