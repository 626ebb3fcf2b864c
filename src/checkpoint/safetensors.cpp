#include "tensor_tracer/checkpoint/safetensors.h"

#include <ATen/ATen.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

namespace tt::checkpoint {
namespace {

const char* dtype_name(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return "F64";
    case at::kFloat:
      return "F32";
    case at::kHalf:
      return "F16";
    case at::kBFloat16:
      return "BF16";
    case at::kLong:
      return "I64";
    case at::kInt:
      return "I32";
    case at::kByte:
      return "U8";
    default:
      return nullptr;
  }
}

base::Error failed(const std::string& path, const std::string& what) {
  return {"storage", what, path, "check the folder and the space on its disk"};
}

}  // namespace

base::Status write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  nlohmann::json header = {{"__metadata__", metadata}};
  std::size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const char* dtype = dtype_name(tensor.scalar_type());
    if (dtype == nullptr) return failed(path, "no safetensors dtype for tensor " + name);
    const std::size_t end = offset + tensor.nbytes();
    header[name] = {
        {"dtype", dtype}, {"shape", tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');

  const std::string partial = path + ".partial";
  std::ofstream out(partial, std::ios::binary | std::ios::trunc);
  const auto size = static_cast<std::uint64_t>(text.size());
  char size_bytes[8];
  std::memcpy(size_bytes, &size, sizeof size);
  out.write(size_bytes, sizeof size_bytes);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  for (const auto& named : tensors) {
    const at::Tensor dense = named.tensor.detach().contiguous();
    out.write(static_cast<const char*>(dense.const_data_ptr()),
              static_cast<std::streamsize>(dense.nbytes()));
  }
  out.close();
  std::error_code error;
  if (!out) {
    std::filesystem::remove(partial, error);
    return failed(path, "could not be written");
  }
  std::filesystem::rename(partial, path, error);
  if (error) return failed(path, "could not be put in place: " + error.message());
  return {};
}

}  // namespace tt::checkpoint
