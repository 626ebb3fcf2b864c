#include "tensor_tracer/checkpoint/tensor_directory.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "src/checkpoint/vector_files.h"

namespace tt::checkpoint {
namespace {

constexpr std::uintmax_t kMaxTensorFileBytes = 256 << 20;

base::Error wrong(const std::string& message, std::string remedy) {
  return {"invalid_argument", message, "--intervention-files", std::move(remedy)};
}

}  // namespace

base::Result<at::Tensor> TensorDirectory::find(const std::string& file, const std::string& name) {
  const bool is_plain = !file.empty() && file.front() != '.' &&
                        file.find_first_of("/\\") == std::string::npos &&
                        file.find('\0') == std::string::npos;
  const std::filesystem::path path = std::filesystem::path(folder_) / file;
  std::error_code error;
  if (!is_plain || !std::filesystem::is_regular_file(path, error)) {
    return wrong("there is no file \"" + file + "\" in the folder of --intervention-files",
                 "give the name of a file in it");
  }
  if (std::filesystem::file_size(path, error) > kMaxTensorFileBytes || error) {
    return wrong("\"" + file + "\" is larger than 256 MiB", "save only what the program reads");
  }
  std::ifstream in(path, std::ios::binary);
  auto tensor = tensor_of_safetensors(std::string(std::istreambuf_iterator<char>(in), {}), name);
  if (!tensor) return wrong("\"" + file + "\": " + tensor.error().message, tensor.error().remedy);
  return tensor;
}

}  // namespace tt::checkpoint
