#pragma once

#include <string>
#include <string_view>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/shared_bytes.h"

namespace tt::base {

/// Maps a regular file for reading. The error's code is "not_found" if there is no file, else
/// "io_error"; its `where` is the path. If another process truncates the file later, a read of the
/// lost part ends this process. Thread: any.
Result<SharedBytes> map_file(const std::string& path);

/// Takes the pages of `part` out of this process's resident memory; the next read brings them back
/// from the file. REQUIRES: `part` lies in bytes of map_file().
void release_pages(std::string_view part);

}  // namespace tt::base
