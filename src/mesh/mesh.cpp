#include "tensor_tracer/mesh/mesh.h"

#include "tensor_tracer/base/check.h"

namespace tt::mesh {
namespace {

std::string sizes_text(const MeshShape& shape) {
  return "tensor " + std::to_string(shape.tensor) + ", pipeline " + std::to_string(shape.pipeline) +
         ", data " + std::to_string(shape.data);
}

bool inside(int index, int size) { return 0 <= index && index < size; }

struct AxisMembers {
  const char* name;
  int MeshShape::*size;
  int Coordinates::*index;
};

const AxisMembers& members_of(Axis axis) {
  static constexpr AxisMembers kMembers[] = {
      {"tensor", &MeshShape::tensor, &Coordinates::tensor},
      {"pipeline", &MeshShape::pipeline, &Coordinates::pipeline},
      {"data", &MeshShape::data, &Coordinates::data}};
  static_assert(std::size(kMembers) == std::size(kAllAxes));
  return kMembers[static_cast<std::size_t>(axis)];
}

}  // namespace

const char* to_string(Axis axis) { return members_of(axis).name; }
int MeshShape::size(Axis axis) const { return this->*members_of(axis).size; }
int Coordinates::index(Axis axis) const { return this->*members_of(axis).index; }

base::Result<MeshShape> fit_mesh(int world_size, int tensor, int pipeline) {
  const std::string numbers = "world size " + std::to_string(world_size) +
                              ", tensor-parallel size " + std::to_string(tensor) +
                              ", pipeline-parallel size " + std::to_string(pipeline);
  if (world_size < 1 || tensor < 1 || pipeline < 1)
    return base::Error{"invalid_argument", numbers + ": each must be at least 1", "mesh", ""};
  // 64 bits: the product of two valid ints may not fit in an int.
  const long long model_ranks = static_cast<long long>(tensor) * pipeline;
  if (world_size % model_ranks != 0) {
    return base::Error{"invalid_argument",
                       numbers + ": " + std::to_string(tensor) + " x " + std::to_string(pipeline) +
                           " = " + std::to_string(model_ranks) + " does not divide " +
                           std::to_string(world_size),
                       "mesh",
                       "start a multiple of " + std::to_string(model_ranks) +
                           " ranks or change --tensor-model-parallel-size"};
  }
  return MeshShape{tensor, pipeline, static_cast<int>(world_size / model_ranks)};
}

Coordinates coordinates_of(const MeshShape& shape, int rank) {
  TT_CHECK(inside(rank, shape.world_size()),
           "rank " + std::to_string(rank) + " in a mesh of " + sizes_text(shape));
  return {.tensor = rank % shape.tensor,
          .pipeline = rank / (shape.tensor * shape.data),
          .data = rank / shape.tensor % shape.data};
}

int rank_of(const MeshShape& shape, const Coordinates& at) {
  for (const Axis axis : kAllAxes) {
    TT_CHECK(inside(at.index(axis), shape.size(axis)), std::string(to_string(axis)) + " " +
                                                           std::to_string(at.index(axis)) +
                                                           " in a mesh of " + sizes_text(shape));
  }
  return at.tensor + shape.tensor * (at.data + shape.data * at.pipeline);
}

std::vector<int> group_along(const MeshShape& shape, int rank, Axis axis) {
  Coordinates at = coordinates_of(shape, rank);
  int& moving = at.*members_of(axis).index;
  std::vector<int> ranks;
  for (moving = 0; moving < shape.size(axis); ++moving) ranks.push_back(rank_of(shape, at));
  return ranks;
}

std::string describe(const MeshShape& shape, int rank) {
  const Coordinates at = coordinates_of(shape, rank);
  std::string places;
  for (const Axis axis : kAllAxes) {
    if (shape.size(axis) == 1) continue;
    places += (places.empty() ? "" : ", ") + std::string(to_string(axis)) + " " +
              std::to_string(at.index(axis));
  }
  return "rank " + std::to_string(rank) + (places.empty() ? "" : " (" + places + ")");
}

}  // namespace tt::mesh
