#pragma once

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/mesh/mesh.h"

namespace tt::train {

/// The process groups of one rank. The tracer and the control broadcast have separate
/// communicators, so that their operations never mix with the operations of training.
struct Groups {
  mesh::MeshShape shape;
  mesh::Coordinates coordinates;
  comm::ProcessGroup world;
  comm::ProcessGroup tensor;
  comm::ProcessGroup data;
  comm::ProcessGroup tracer;   // along the tensor axis
  comm::ProcessGroup control;  // all ranks
};

/// Collective over `world`. REQUIRES: shape.world_size() == world.size().
Groups make_groups(const comm::ProcessGroup& world, const mesh::MeshShape& shape);

/// Calls ProcessGroup::verify_sequence of every group; the CheckError names the group. Collective.
void verify_sequences(const Groups& groups);

}  // namespace tt::train
