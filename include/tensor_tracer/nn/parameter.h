#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/mesh/placement.h"
#include "tensor_tracer/nn/context.h"
#include "tensor_tracer/points/place_table_builder.h"

namespace tt::nn {

/// A trainable tensor: this rank's shard (an autograd leaf), and the name, placement and full shape
/// of the logical tensor. Copies share the leaf.
struct Parameter {
  std::string name;           // stable, the same on every mesh; layers count from 1
  at::Tensor local;           // requires grad; the optimizer changes it
  mesh::Placement placement;  // on the tensor axis
  std::vector<std::int64_t> full_shape;
  /// True for a replicated tensor that each tensor rank applies to other columns: the ranks' local
  /// gradients are parts of a sum.
  bool has_partial_gradient = false;
  bool is_trained = true;  // false: frozen, without gradient
  /// Of a trained bfloat16 parameter, `local` is the float32 main weight, and this tensor is the
  /// parameter: the main weight, rounded to nearest. Undefined: `local` is the parameter.
  at::Tensor rounded = {};

  /// The numbers that the model computes with, without gradient.
  at::Tensor value() const { return (rounded.defined() ? rounded : local).detach(); }
  /// The same numbers in `dtype`. Their gradient goes to `local`.
  at::Tensor as(at::ScalarType dtype) const;
};

/// Rounds every main weight again, after the main weights have changed. No forward pass may be
/// open.
void round_main_weights(const std::vector<Parameter>& parameters);

/// True for the names of an adapter's parameters (low_rank.h).
bool is_adapter(const std::string& name);

enum class Init { kZeros, kOnes, kNormal };

/// Fills the full shape from a generator whose seed depends only on (seed, name), and keeps this
/// rank's shard. So the model starts with the same numbers on every mesh. kNormal: mean 0, `std`.
/// The numbers are drawn in float32, then rounded once to a narrower `context.params_dtype`; the
/// parameters of adapters stay float32. With `context.loads_parameters`, the shard is left unset.
Parameter make_parameter(const BuildContext& context, const std::string& name,
                         const std::vector<std::int64_t>& full_shape,
                         const mesh::Placement& placement, Init init, double std = 0.0);

/// Collective over `group`: the full tensor of which `local` is this rank's shard, on rank 0;
/// undefined elsewhere.
at::Tensor gather_full(const at::Tensor& local, const mesh::Placement& placement,
                       const comm::ProcessGroup& group);

/// Declares the parameter as a place. `path`: path in the layer, or outside the layers. `name`:
/// name of the place; empty: the path.
points::PlaceKey declare(points::PlaceTableBuilder& places, const Parameter& parameter,
                         const std::string& path, const std::string& name = "");

/// Returns the row with its features sharded in `segments` over `ranks` ranks. Ranks that hold
/// copies of a chunk hold partial sums of its gradient.
points::Place sharded(points::Place place, std::vector<mesh::Segment> segments, int ranks);
/// Returns the row as a value that all tensor ranks hold whole.
points::Place replicated(points::Place place, std::int64_t features);

/// Returns the row as a value that is computed only for the trace plan: without gradient, and not
/// in programs.
points::Place only_traced(points::Place place);

/// A layer with a weight and an optional bias. Both are places that programs may change.
class AffineLayer {
 public:
  /// Declares weight and bias as places below `path`. `weight_name`: name of the weight's place;
  /// empty: its path.
  void declare(points::PlaceTableBuilder& places, const std::string& path,
               const std::string& weight_name = "");
  std::vector<Parameter> parameters() const;

 protected:
  /// The weight as in make_parameter(). If `bias` has a placement: a bias of shape[0] zeros.
  AffineLayer(const BuildContext& context, const std::string& name,
              const std::vector<std::int64_t>& shape, const mesh::Placement& placement, Init init,
              double std, const std::optional<mesh::Placement>& bias);
  /// The weight after changes by programs, in the dtype of activations.
  at::Tensor weight(const ForwardContext& context) const;
  std::optional<at::Tensor> bias(const ForwardContext& context) const;
  /// Without changes by programs.
  at::Tensor weight() const;
  std::optional<at::Tensor> bias() const;
  const mesh::Placement& weight_placement() const { return weight_.placement; }
  /// For a layer that each tensor rank applies to other columns.
  void mark_partial_gradients();

 private:
  Parameter weight_;
  std::optional<Parameter> bias_;
  at::ScalarType dtype_;
  points::PlaceKey weight_place_, bias_place_;
};

}  // namespace tt::nn
