#pragma once

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <memory>
#include <string>

#include "src/comm/group_impl.h"

namespace c10d {
class Backend;
}

namespace tt::comm::c10d {

using BackendPointer = c10::intrusive_ptr<::c10d::Backend>;

/// The backends of a group, by the device of the tensors.
struct Backends {
  BackendPointer cpu;
  BackendPointer cuda = {};  // null: the group has no tensors there
};

/// Makes the backends of a group of `size` ranks. The ranks that pass the same name meet.
using MakeBackends = std::function<Backends(const std::string& name, int rank, int size)>;

/// Owned by all groups of a job.
struct Job {
  MakeBackends make;  // null after the end of the World
};

/// A group over a backend of c10d. Reductions add in rank order, as no backend of c10d promises:
/// each rank gets one block of every rank, reduces it and sends it to all. On a device an operation
/// is done in the order of the current stream: the host does not wait for it. `name` is unique in
/// the job. Throws CommError if not all ranks meet.
std::shared_ptr<detail::GroupImpl> make_group(std::shared_ptr<Job> job, const std::string& name,
                                              int rank, int size);

}  // namespace tt::comm::c10d
