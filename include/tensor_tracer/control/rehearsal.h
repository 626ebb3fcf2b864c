#pragma once

#include <memory>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/trace/device_runtime.h"
#include "tensor_tracer/trace/intervention_hooks.h"
#include "tensor_tracer/trace/tracer.h"

namespace tt::control {

/// What forward passes need that run between two steps only for an answer to a viewer. `hooks` may
/// be null: no support for programs. `runtime`: as of trace::Tracer.
struct Rehearsal {
  trace::InterventionHooks* hooks;
  const comm::ProcessGroup& control;
  const comm::ProcessGroup& tracer_group;
  trace::TracerIdentity identity;
  const trace::PlanContext& context;
  std::shared_ptr<trace::DeviceRuntime> runtime = nullptr;
};

}  // namespace tt::control
