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

/// Makes the backend of a group of `size` ranks. The ranks that pass the same name meet.
using MakeBackend =
    std::function<c10::intrusive_ptr<::c10d::Backend>(const std::string& name, int rank, int size)>;

/// Owned by all groups of a job.
struct Job {
  MakeBackend make;  // null after the end of the World
};

/// A group over a backend of c10d. Reductions add in rank order, as no backend of c10d promises:
/// each rank gets one block of every rank, reduces it and sends it to all. `name` is unique in the
/// job. Throws CommError if not all ranks meet.
std::shared_ptr<detail::GroupImpl> make_group(std::shared_ptr<Job> job, const std::string& name,
                                              int rank, int size);

}  // namespace tt::comm::c10d
