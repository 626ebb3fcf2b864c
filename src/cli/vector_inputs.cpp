#include "src/cli/vector_inputs.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace tt::cli {
namespace {

base::Result<GivenVector> read_one(const std::string& path, const checkpoint::VectorFile& file,
                                   const std::string& name) {
  auto read = file.read(name);
  if (!read) return read.error();
  checkpoint::StoredVector& vector = read.value();
  if (vector.rows.dim() != 2) {
    return base::invalid_argument(
        path, fmt::format("\"{}\" has the shape {}", name, shape_text(vector.rows)),
        "a vector has the shape [layers + 1, hidden] or [layers, hidden]");
  }
  const std::string label = file.names().size() > 1 ? path + ":" + name : path;
  return GivenVector{label, std::move(vector)};
}

}  // namespace

base::Result<std::vector<GivenVector>> read_given_vectors(const std::vector<std::string>& paths) {
  std::vector<GivenVector> vectors;
  for (const std::string& path : paths) {
    const auto file = checkpoint::VectorFile::open(path);
    if (!file) {
      base::Error error = file.error();
      error.where = path;
      return error;
    }
    for (const std::string& name : file.value().names()) {
      auto one = read_one(path, file.value(), name);
      if (!one) return one.error();
      vectors.push_back(std::move(one).value());
    }
  }
  return vectors;
}

base::Status check_same_shape(const std::vector<GivenVector>& vectors) {
  for (const GivenVector& one : vectors) {
    const GivenVector& first = vectors.front();
    if (one.vector.rows.sizes() == first.vector.rows.sizes()) continue;
    return base::invalid_argument(
        one.label,
        fmt::format("has the shape {}, and {} has {}", shape_text(one.vector.rows), first.label,
                    shape_text(first.vector.rows)),
        "give vectors of one model, all with or all without the row of the embedding");
  }
  return {};
}

std::string shape_text(const at::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes().vec(), ", "));
}

}  // namespace tt::cli
