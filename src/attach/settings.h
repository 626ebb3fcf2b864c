#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "tensor_tracer/control/hub_session.h"
#include "tensor_tracer/mesh/mesh.h"

namespace tt::attach {

/// The arguments of an attached run, which the Python side has checked.
struct Settings {
  // Names of PyTorch's process groups that only the tracer uses; empty: a group of this rank alone.
  std::string control_group;  // all ranks
  std::string tracer_group;   // the ranks that share tensors
  std::string tensor_group;   // the same ranks, for programs
  int rank = 0;               // global
  mesh::MeshShape shape;
  int contexts = 1;               // context-parallel ranks
  mesh::Coordinates coordinates;  // tensor: this rank's place in the tensor group
  bool has_hub = false;           // on global rank 0, if the run has a page or a recording
  control::HubSessionOptions hub = {};
  std::string vectors;          // folder or file of direction vectors; empty: none
  std::string files;            // folder of the files that programs name; empty: none
  std::int64_t first_step = 1;  // the number of the first step
};

/// REQUIRES: the form that python/tensor_tracer/attaching/settings.py writes.
Settings read_settings(const nlohmann::json& text);

}  // namespace tt::attach
