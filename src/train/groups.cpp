#include "tensor_tracer/train/groups.h"

#include <string>
#include <utility>

#include "tensor_tracer/base/check.h"

namespace tt::train {

Groups make_groups(const comm::ProcessGroup& world, const mesh::MeshShape& shape) {
  TT_CHECK_EQ(shape.world_size(), world.size());
  const mesh::Coordinates at = mesh::coordinates_of(shape, world.rank());
  // The color of a group is its lowest rank.
  const auto along = [&](mesh::Axis axis, const std::string& name) {
    return world.split(mesh::group_along(shape, world.rank(), axis).front(), at.index(axis), name);
  };
  return {shape,
          at,
          world,
          along(mesh::Axis::kTensor, "tensor"),
          along(mesh::Axis::kData, "data"),
          along(mesh::Axis::kTensor, "tracer"),
          world.split(0, world.rank(), "control")};
}

void verify_sequences(const Groups& groups) {
  for (const auto& [name, group] :
       {std::pair("world", &groups.world), std::pair("tensor", &groups.tensor),
        std::pair("data", &groups.data), std::pair("tracer", &groups.tracer),
        std::pair("control", &groups.control)}) {
    try {
      group->verify_sequence();
    } catch (const base::CheckError& error) {
      throw base::CheckError("group " + std::string(name) + ": " + error.what());
    }
  }
}

}  // namespace tt::train
