#include "tensor_tracer/checkpoint/model_files.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "src/checkpoint/durable_file.h"

namespace tt::checkpoint {

base::Status ModelFiles::add(NamedTensor tensor) {
  const std::size_t bytes = tensor.tensor.nbytes();
  if (!pending_.empty() && pending_bytes_ + bytes > max_bytes_)
    if (auto status = write_pending(); !status) return status;
  file_of_[tensor.name] = num_files_;
  pending_bytes_ += bytes;
  total_bytes_ += bytes;
  pending_.push_back(std::move(tensor));
  return {};
}

std::string ModelFiles::path_of(std::size_t file) const {
  return fmt::format("{}/part-{:05d}.safetensors", folder_, file + 1);
}

base::Status ModelFiles::write_pending() {
  const auto written = write_safetensors(path_of(num_files_), pending_, {{"format", "pt"}});
  if (!written) return written.error();
  ++num_files_;
  pending_.clear();
  pending_bytes_ = 0;
  return {};
}

base::Status ModelFiles::write_index(const std::vector<std::string>& names) const {
  nlohmann::json map = nlohmann::json::object();
  for (const auto& [tensor, file] : file_of_) map[tensor] = names[file];
  const nlohmann::json index = {{"metadata", {{"total_size", total_bytes_}}}, {"weight_map", map}};
  return write_durable(folder_ + "/model.safetensors.index.json", index.dump(2) + "\n");
}

base::Status ModelFiles::finish() {
  if (auto status = write_pending(); !status) return status;
  std::vector<std::string> names;
  for (std::size_t file = 0; file < num_files_; ++file) {
    names.push_back(num_files_ == 1
                        ? "model.safetensors"
                        : fmt::format("model-{:05d}-of-{:05d}.safetensors", file + 1, num_files_));
    std::error_code error;
    std::filesystem::rename(path_of(file), folder_ + "/" + names.back(), error);
    if (error) return base::Error{"storage", error.message(), folder_ + "/" + names.back(), ""};
  }
  return num_files_ == 1 ? base::Status() : write_index(names);
}

}  // namespace tt::checkpoint
