#include "tensor_tracer/checkpoint/safetensors.h"

#include <ATen/ATen.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "src/checkpoint/dtypes.h"
#include "src/checkpoint/durable_file.h"
#include "tensor_tracer/base/check.h"

namespace tt::checkpoint {
namespace {

base::Result<std::string> header_of(const std::string& path, const std::vector<TensorSpec>& tensors,
                                    const std::map<std::string, std::string>& metadata) {
  nlohmann::json header = {{"__metadata__", metadata}};
  std::size_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    const auto dtype = safetensors_name(tensor.dtype);
    if (!dtype)
      return base::Error{"storage", "no safetensors dtype for tensor " + tensor.name, path, ""};
    const std::size_t end = offset + tensor.bytes();
    header[tensor.name] = {
        {"dtype", *dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

std::size_t TensorSpec::bytes() const {
  std::size_t bytes = c10::elementSize(dtype);
  for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

SafetensorsWriter::SafetensorsWriter(std::string path, std::unique_ptr<DurableFile> file,
                                     std::vector<TensorSpec> tensors)
    : path_(std::move(path)), file_(std::move(file)), tensors_(std::move(tensors)) {}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept = default;
SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&& other) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

base::Result<SafetensorsWriter> SafetensorsWriter::create(
    const std::string& path, std::vector<TensorSpec> tensors,
    const std::map<std::string, std::string>& metadata) {
  const auto header = header_of(path, tensors, metadata);
  if (!header) return header.error();
  auto file = DurableFile::create(path);
  if (!file) return file.error();
  const auto size = static_cast<std::uint64_t>(header.value().size());
  auto status = file.value().write(std::as_bytes(std::span(&size, 1)));
  if (status) status = file.value().write(std::as_bytes(std::span(header.value())));
  if (!status) return status.error();
  return SafetensorsWriter(path, std::make_unique<DurableFile>(std::move(file).value()),
                           std::move(tensors));
}

base::Status SafetensorsWriter::add(const at::Tensor& tensor) {
  TT_CHECK(!is_complete() && tensor.scalar_type() == tensors_[next_].dtype &&
               tensor.sizes() == at::IntArrayRef(tensors_[next_].shape),
           "a tensor that is not in the header of " + path_);
  ++next_;
  const at::Tensor dense = tensor.detach().contiguous();
  return file_->write({static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()});
}

base::Result<FileFacts> SafetensorsWriter::finish() {
  TT_CHECK(is_complete(), "a tensor of " + path_ + " was not written");
  if (auto status = file_->finish(); !status) return status.error();
  return FileFacts{std::filesystem::path(path_).filename().string(), file_->size(),
                   file_->crc32c()};
}

base::Result<FileFacts> write_safetensors(const std::string& path,
                                          const std::vector<NamedTensor>& tensors,
                                          const std::map<std::string, std::string>& metadata) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : tensors)
    specs.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  auto writer = SafetensorsWriter::create(path, std::move(specs), metadata);
  if (!writer) return writer.error();
  for (const NamedTensor& one : tensors)
    if (auto status = writer.value().add(one.tensor); !status) return status.error();
  return writer.value().finish();
}

}  // namespace tt::checkpoint
