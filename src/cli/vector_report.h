#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tensor_tracer/checkpoint/vector_file.h"

namespace tt::cli {

/// The facts of a vector for `--json`: label, name, shape, dtype, norms by row and provenance.
nlohmann::json describe_vector(const std::string& label, const checkpoint::StoredVector& vector);

/// Prints such facts; lists of the provenance under "by_row" become columns beside the norms.
void print_vector(const nlohmann::json& facts);

}  // namespace tt::cli
