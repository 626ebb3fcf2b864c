#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/nn/kv_cache.h"
#include "tensor_tracer/nn/row_documents.h"
#include "tensor_tracer/points/place_table.h"
#include "tensor_tracer/trace/intervention_pass.h"
#include "tensor_tracer/trace/pass.h"

namespace tt::nn {

/// The arguments to build every layer of one rank. Layers keep copies of the handles that they
/// need.
struct BuildContext {
  /// Ranks along the tensor axis.
  comm::ProcessGroup tensor;
  std::uint64_t seed = 0;
  /// kBFloat16: trained parameters have float32 main weights besides (parameter.h).
  at::ScalarType params_dtype = at::kFloat;
  /// dtype of activations and of the matrices that multiply them.
  at::ScalarType compute_dtype = at::kFloat;
  /// Device of parameters. kMeta: parameters have a shape and no numbers; the model can only
  /// describe itself.
  at::Device device = at::kCPU;
  /// True: parameters get no first numbers, because they are loaded. Adapters get them.
  bool loads_parameters = false;
  /// Tokens of a chunk of the loss; 0: by the vocabulary (cross_entropy.h).
  std::int64_t loss_chunk_size = 0;
  /// Parameters that are not trained: their names match one of these patterns (fnmatch). Adapters
  /// are always trained.
  std::vector<std::string> frozen = {};
  /// Number of ranks for a model that only describes itself, without a group; 0: the ranks of
  /// `tensor`.
  int described_ranks = 0;

  int tensor_ranks() const { return described_ranks > 0 ? described_ranks : tensor.size(); }
};

/// The context of one forward pass, in addition to its input. `pass` and `interventions` outlive
/// the context and any recomputation of the layers in the backward.
struct ForwardContext {
  trace::Pass& pass;
  std::uint64_t seed = 0;
  std::int64_t step = 1;
  std::int64_t first_row = 0;                        // of this micro-batch, in the global batch
  bool is_training = true;                           // dropout on
  trace::InterventionPass* interventions = nullptr;  // null: no program acts in this forward
  RowDocuments documents = {};                       // of the rows of this micro-batch
  double loss_gradient = 1.0;  // with which the backward pass will begin; not 0
  KvCache* cache = nullptr;    // null: no keys and values are kept

  /// Runs a trace point: programs change `x`, then the pass captures it. Returns the changed `x`.
  at::Tensor point(const points::PlaceKey& place, at::Tensor x) const {
    x = intervene(place, std::move(x));
    pass.capture(place, x);
    return x;
  }
  /// Returns `x` as programs change it. For weights, which are not captured.
  at::Tensor intervene(const points::PlaceKey& place, at::Tensor x) const {
    if (interventions != nullptr && interventions->acts_at(place)) [[unlikely]]
      return interventions->at_point(place, x);
    return x;
  }
  /// True if a program acts at the place, or an entry needs its gradient; `batch`: rows of the
  /// forward. The same on every tensor rank.
  bool needs_graph(const points::PlaceKey& place, std::int64_t batch) const {
    return (interventions != nullptr && interventions->acts_at(place)) ||
           pass.rows_wanted(place, batch, /*gradient=*/true) > 0;
  }
  /// The position of each token, int64 [batch, tokens]; undefined: its index in the row.
  at::Tensor positions() const {
    return cache != nullptr && cache->is_step() ? cache->positions() : documents.positions();
  }
  bool skips(int layer) const { return interventions != nullptr && interventions->skips(layer); }
};

}  // namespace tt::nn
