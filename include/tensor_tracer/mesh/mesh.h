#pragma once

#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"

namespace tt::mesh {

/// Mesh axes. The mesh has axes; a tensor has dims.
enum class Axis { kTensor, kPipeline, kData };
inline constexpr Axis kAllAxes[] = {Axis::kTensor, Axis::kPipeline, Axis::kData};

/// "tensor", "pipeline" or "data".
const char* to_string(Axis axis);

/// Number of ranks along each axis.
struct MeshShape {
  int tensor = 1;
  int pipeline = 1;
  int data = 1;
  int world_size() const { return tensor * pipeline * data; }
  int size(Axis axis) const;
};

/// One rank's position in the mesh.
struct Coordinates {
  int tensor = 0;
  int pipeline = 0;
  int data = 0;
  int index(Axis axis) const;
  bool operator==(const Coordinates&) const = default;
};

/// The mesh of `world_size` ranks with the given tensor and pipeline sizes; the data size is the
/// quotient. Error, with all numbers: sizes below 1, or a world size that their product does not
/// divide.
base::Result<MeshShape> fit_mesh(int world_size, int tensor, int pipeline);

/// Global rank -> coordinates. Megatron-LM's default order tp-dp-pp: tensor varies fastest, then
/// data, then pipeline. REQUIRES: 0 <= rank < world_size.
Coordinates coordinates_of(const MeshShape& shape, int rank);

/// Coordinates -> global rank. REQUIRES: coordinates inside the shape.
int rank_of(const MeshShape& shape, const Coordinates& at);

/// `rank` and the global ranks that differ from it only along `axis`, in the order of the axis.
std::vector<int> group_along(const MeshShape& shape, int rank, Axis axis);

/// "rank 3 (tensor 1, data 1)": axes of size 1 are left out.
std::string describe(const MeshShape& shape, int rank);

}  // namespace tt::mesh
