#include "tensor_tracer/checkpoint/safetensors.h"

#include <ATen/ATen.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "src/checkpoint/dtypes.h"
#include "src/checkpoint/durable_file.h"

namespace tt::checkpoint {
namespace {

base::Result<std::string> header_of(const std::string& path,
                                    const std::vector<NamedTensor>& tensors,
                                    const std::map<std::string, std::string>& metadata) {
  nlohmann::json header = {{"__metadata__", metadata}};
  std::size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto dtype = safetensors_name(tensor.scalar_type());
    if (!dtype) return base::Error{"storage", "no safetensors dtype for tensor " + name, path, ""};
    const std::size_t end = offset + tensor.nbytes();
    header[name] = {
        {"dtype", *dtype}, {"shape", tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

base::Status write_all(DurableFile& file, std::string_view header,
                       const std::vector<NamedTensor>& tensors) {
  const auto size = static_cast<std::uint64_t>(header.size());
  auto status = file.write(std::as_bytes(std::span(&size, 1)));
  if (status) status = file.write(std::as_bytes(std::span(header)));
  for (const auto& named : tensors) {
    if (!status) return status;
    const at::Tensor dense = named.tensor.detach().contiguous();
    status = file.write({static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()});
  }
  return status ? file.finish() : status;
}

}  // namespace

base::Result<FileFacts> write_safetensors(const std::string& path,
                                          const std::vector<NamedTensor>& tensors,
                                          const std::map<std::string, std::string>& metadata) {
  const auto header = header_of(path, tensors, metadata);
  if (!header) return header.error();
  auto file = DurableFile::create(path);
  if (!file) return file.error();
  if (auto status = write_all(file.value(), header.value(), tensors); !status)
    return status.error();
  return FileFacts{std::filesystem::path(path).filename().string(), file.value().size(),
                   file.value().crc32c()};
}

}  // namespace tt::checkpoint
