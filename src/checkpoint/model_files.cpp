#include "tensor_tracer/checkpoint/model_files.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "src/checkpoint/durable_file.h"

namespace tt::checkpoint {

ModelFiles::ModelFiles(std::string folder, const std::vector<TensorSpec>& tensors,
                       std::size_t max_bytes)
    : folder_(std::move(folder)), files_(1) {
  std::size_t bytes = 0;  // of the last file
  for (const TensorSpec& tensor : tensors) {
    if (!files_.back().empty() && bytes + tensor.bytes() > max_bytes) {
      files_.emplace_back();
      bytes = 0;
    }
    bytes += tensor.bytes();
    files_.back().push_back(tensor);
  }
}

std::string ModelFiles::name_of(std::size_t file) const {
  if (files_.size() == 1) return "model.safetensors";
  return fmt::format("model-{:05d}-of-{:05d}.safetensors", file + 1, files_.size());
}

base::Status ModelFiles::begin_file() {
  auto writer =
      SafetensorsWriter::create(folder_ + "/" + name_of(file_), files_[file_], {{"format", "pt"}});
  if (!writer) return writer.error();
  writer_ = std::move(writer).value();
  return {};
}

base::Status ModelFiles::add(const at::Tensor& tensor) {
  if (!writer_)
    if (auto status = begin_file(); !status) return status;
  if (auto status = writer_->add(tensor); !status) return status;
  if (!writer_->is_complete()) return {};
  const auto written = writer_->finish();
  if (!written) return written.error();
  writer_.reset();
  ++file_;
  return {};
}

base::Status ModelFiles::write_index() const {
  nlohmann::json map = nlohmann::json::object();
  std::uint64_t bytes = 0;
  for (std::size_t file = 0; file < files_.size(); ++file) {
    for (const TensorSpec& tensor : files_[file]) {
      map[tensor.name] = name_of(file);
      bytes += tensor.bytes();
    }
  }
  const nlohmann::json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", map}};
  return write_durable(folder_ + "/model.safetensors.index.json", index.dump(2) + "\n");
}

base::Status ModelFiles::finish() { return files_.size() == 1 ? base::Status() : write_index(); }

}  // namespace tt::checkpoint
