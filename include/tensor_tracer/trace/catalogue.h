#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/mesh/placement.h"

namespace tt::trace {

/// Numbers of trace points on the wire. Below 16 they are Tensor Tracer's own.
enum class PointFlag : std::uint16_t {
  kQkv = 1,
  kRawAttentionScore = 2,
  kContextLayer = 3,
  kMlp1 = 4,
  kMlp2 = 5,
  kAttentionOutput = 6,
  kHiddenStates = 7,
  kInputTokens = 8,
  kQuery = 16,
  kKey = 17,
  kValue = 18,
  kResidualMid = 19,
  kEmbedding = 20,
  kMlpActivation = 21,
  kFinalNorm = 22,
  kLogits = 23,
  // Weights: places of interventions, not captured.
  kQkvWeight = 32,
  kProjWeight = 33,
  kFc1Weight = 34,
  kFc2Weight = 35,
  kOutputWeight = 36,
};
inline constexpr std::size_t kNumPointFlags = 37;

/// One named place in the forward pass. Its logical tensor has the dims named here, of which the
/// last, the features, are compressed; InputTokens is [2, batch, sequence] of integers.
struct PointDescription {
  std::string name;
  PointFlag flag = PointFlag::kHiddenStates;
  int first_layer = 1;  // global, from 1; 0 and 0: no layer
  int last_layer = 1;
  std::int64_t features = 0;  // 0: integers, not compressed
  mesh::Placement tensor;     // on the tensor axis; the data axis shards the batch
  std::string bias;           // "included", "none" or "not applicable"
  std::string text;           // one line for people
  std::vector<std::string> dims = {"batch", "sequence", "features"};
  std::vector<std::int64_t> shape;  // logical, of one forward of a training micro-batch
  std::string dtype;                // of PyTorch: "float32", "bfloat16", …
  /// Of the gradient; none: nothing flows back through what is captured here.
  std::optional<mesh::Placement> gradient = std::nullopt;
  /// The hidden state that this point is compared with (0: the embedding); none: its layer number.
  std::optional<int> hidden_state = std::nullopt;

  bool holds_integers() const { return features == 0; }
  /// Where the forward pass meets it, as programs name it: "layers[n].attention.qkv", "logits".
  std::string path() const;
};

/// A matrix that a forward pass uses: a place of interventions, not of the catalogue.
struct WeightDescription {
  std::string name;
  PointFlag flag = PointFlag::kQkvWeight;
  int first_layer = 1;  // as for points
  int last_layer = 1;
  std::vector<std::int64_t> shape;  // [out, in]
  mesh::Placement placement;        // on the tensor axis
};

/// The trace points of one model. Immutable. Thread: any.
class Catalogue {
 public:
  explicit Catalogue(std::vector<PointDescription> points);
  const std::vector<PointDescription>& points() const { return points_; }
  /// Index of the point with this name.
  std::optional<std::size_t> find(std::string_view name) const;
  const PointDescription& at(PointFlag flag) const;
  std::size_t index_of(PointFlag flag) const;
  /// The form of docs/protocol.md, "The run's facts".
  nlohmann::json to_json() const;

 private:
  std::vector<PointDescription> points_;
};

}  // namespace tt::trace
