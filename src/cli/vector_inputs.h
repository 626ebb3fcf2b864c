#pragma once

#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/checkpoint/vector_file.h"

namespace tt::cli {

/// A vector of a file on the command line.
struct GivenVector {
  std::string label;  // for people: the path; of a file with several vectors also the name
  checkpoint::StoredVector vector;
};

/// Reads all vectors of the files, in order. Error: a file cannot be read, or a vector is not a
/// matrix; it names the file.
base::Result<std::vector<GivenVector>> read_given_vectors(const std::vector<std::string>& paths);

/// Error: the vectors have different shapes; it names the first two.
base::Status check_same_shape(const std::vector<GivenVector>& vectors);

/// "[31, 576]".
std::string shape_text(const at::Tensor& tensor);

}  // namespace tt::cli
