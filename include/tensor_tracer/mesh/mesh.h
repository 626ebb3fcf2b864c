#pragma once

#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"

namespace tt::mesh {

/// Mesh axes; *axis* is of the mesh, *dim* of a tensor.
enum class Axis { kTensor, kPipeline, kData };
inline constexpr Axis kAllAxes[] = {Axis::kTensor, Axis::kPipeline, Axis::kData};

/// "tensor", "pipeline" or "data".
const char* to_string(Axis axis);

/// Ranks along each axis.
struct MeshShape {
  int tensor = 1;
  int pipeline = 1;
  int data = 1;
  int world_size() const { return tensor * pipeline * data; }
  int size(Axis axis) const;
};

/// One rank's place.
struct Coordinates {
  int tensor = 0;
  int pipeline = 0;
  int data = 0;
  int index(Axis axis) const;
  bool operator==(const Coordinates&) const = default;
};

/// The mesh of `world_size` ranks with the given tensor and pipeline sizes; data takes the rest.
/// Error: sizes below 1, or a world size that they do not divide, with all numbers named.
base::Result<MeshShape> fit_mesh(int world_size, int tensor, int pipeline);

/// Global rank -> place. Megatron-LM's default order tp-dp-pp: tensor varies fastest, then data,
/// then pipeline. REQUIRES: 0 <= rank < world_size.
Coordinates coordinates_of(const MeshShape& shape, int rank);

/// The inverse. REQUIRES: coordinates inside the shape.
int rank_of(const MeshShape& shape, const Coordinates& at);

/// The global ranks that differ from `rank` only along `axis`, in order along it, `rank` included.
std::vector<int> group_along(const MeshShape& shape, int rank, Axis axis);

/// "rank 3 (tensor 1, data 1)": axes of size 1 are left out.
std::string describe(const MeshShape& shape, int rank);

}  // namespace tt::mesh
