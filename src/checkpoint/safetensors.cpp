#include "tensor_tracer/checkpoint/safetensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

namespace tt::checkpoint {
namespace {

struct DtypeName {
  at::ScalarType dtype;
  const char* name;
};
constexpr DtypeName kDtypeNames[] = {
    {at::kDouble, "F64"}, {at::kFloat, "F32"}, {at::kHalf, "F16"}, {at::kBFloat16, "BF16"},
    {at::kLong, "I64"},   {at::kInt, "I32"},   {at::kByte, "U8"}};

base::Error failed(const std::string& path, const std::string& what) {
  return {"storage", what, path, "check the folder and the space on its disk"};
}

}  // namespace

base::Status write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  nlohmann::json header = {{"__metadata__", metadata}};
  std::size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto* dtype = std::ranges::find(kDtypeNames, tensor.scalar_type(), &DtypeName::dtype);
    if (dtype == std::end(kDtypeNames))
      return failed(path, "no safetensors dtype for tensor " + name);
    const std::size_t end = offset + tensor.nbytes();
    header[name] = {
        {"dtype", dtype->name}, {"shape", tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
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
