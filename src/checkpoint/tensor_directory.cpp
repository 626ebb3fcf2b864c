#include "tensor_tracer/checkpoint/tensor_directory.h"

#include <filesystem>
#include <system_error>

#include "src/checkpoint/single_tensor.h"
#include "src/checkpoint/tensor_bytes.h"
#include "tensor_tracer/base/private_file.h"

namespace tt::checkpoint {

base::Result<at::Tensor> TensorDirectory::find(const std::string& file, const std::string& name) {
  const bool is_plain = !file.empty() && file.front() != '.' &&
                        file.find_first_of("/\\") == std::string::npos &&
                        file.find('\0') == std::string::npos;
  const std::filesystem::path path = std::filesystem::path(folder_) / file;
  std::error_code error;
  if (!is_plain || !std::filesystem::is_regular_file(path, error)) {
    return base::invalid_argument(
        "--intervention-files",
        "there is no file \"" + file + "\" in the folder of --intervention-files",
        "give the name of a file in it");
  }
  const auto bytes = base::read_small_file(path, kMaxTensorFileBytes);
  if (!bytes) {
    return base::invalid_argument("--intervention-files",
                                  "\"" + file + "\" " + bytes.error().message,
                                  "save only what the program reads");
  }
  auto tensor = tensor_of_safetensors(bytes.value(), name);
  if (!tensor)
    return base::invalid_argument("--intervention-files",
                                  "\"" + file + "\": " + tensor.error().message,
                                  tensor.error().remedy);
  return tensor;
}

}  // namespace tt::checkpoint
