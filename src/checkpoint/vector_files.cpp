#include "src/checkpoint/vector_files.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <regex>
#include <utility>
#include <vector>

namespace tt::checkpoint {
namespace {

base::Error wrong(std::string message) {
  return {"invalid_argument", std::move(message), {}, "save one tensor of float numbers"};
}

base::Result<at::Tensor> copy_of(const std::string& bytes, std::size_t begin, std::size_t size,
                                 const std::vector<std::int64_t>& shape, at::ScalarType dtype) {
  std::uint64_t wanted = at::elementSize(dtype);
  for (const std::int64_t extent : shape) {
    if (extent <= 0 || wanted > bytes.size()) return wrong("its shape does not fit its size");
    wanted *= static_cast<std::uint64_t>(extent);
  }
  if (begin > bytes.size() || size > bytes.size() - begin || wanted != size) {
    return wrong("its shape does not fit its size");
  }
  at::Tensor tensor = at::empty(shape, dtype);
  std::memcpy(tensor.mutable_data_ptr(), bytes.data() + begin, size);
  return tensor;
}

std::optional<at::ScalarType> safetensors_dtype(const std::string& name) {
  if (name == "F64") return at::kDouble;
  if (name == "F32") return at::kFloat;
  if (name == "F16") return at::kHalf;
  if (name == "BF16") return at::kBFloat16;
  return std::nullopt;
}

std::optional<at::ScalarType> npy_dtype(const std::string& name) {
  if (name == "<f8") return at::kDouble;
  if (name == "<f4") return at::kFloat;
  if (name == "<f2") return at::kHalf;
  return std::nullopt;
}

}  // namespace

base::Result<at::Tensor> tensor_of_pt(const std::string& bytes) {
  try {
    const c10::IValue value = torch::jit::pickle_load({bytes.begin(), bytes.end()});
    if (!value.isTensor()) return wrong("it holds a " + value.tagKind() + ", not a tensor");
    return value.toTensor();
  } catch (const std::exception&) {
    return wrong("it is not a tensor that torch.save wrote");
  }
}

// Format 1.0 to 3.0 of numpy.lib.format: magic, version, header length, a Python dict as text.
base::Result<at::Tensor> tensor_of_npy(const std::string& bytes) {
  const bool is_npy = bytes.size() > 12 && bytes.compare(0, 6, "\x93NUMPY", 6) == 0;
  if (!is_npy) return wrong("it is not an .npy file");
  const std::size_t length_bytes = bytes[6] == 1 ? 2 : 4;
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, length_bytes);
  const std::size_t begin = 8 + length_bytes + length;
  if (begin > bytes.size()) return wrong("its header is cut off");
  const std::string header = bytes.substr(8 + length_bytes, length);
  static const std::regex kHeader(
      R"(\{'descr': '([^']+)', 'fortran_order': (True|False), 'shape': \(([0-9, ]*)\),? *\}\s*)");
  std::smatch found;
  if (!std::regex_match(header, found, kHeader)) return wrong("its header cannot be read");
  const auto dtype = npy_dtype(found[1]);
  if (!dtype || found[2] == "True") {
    return wrong("it is of dtype " + found[1].str() +
                 (found[2] == "True" ? " in Fortran order" : ""));
  }
  std::vector<std::int64_t> shape;
  const std::string sizes = found[3];
  static const std::regex kNumber("[0-9]{1,18}");
  for (std::sregex_iterator at(sizes.begin(), sizes.end(), kNumber), end; at != end; ++at) {
    shape.push_back(std::stoll(at->str()));
  }
  return copy_of(bytes, begin, bytes.size() - begin, shape, *dtype);
}

base::Result<at::Tensor> tensor_of_safetensors(const std::string& bytes,
                                               const std::string& wanted) {
  std::uint64_t length = 0;
  if (bytes.size() > 8) std::memcpy(&length, bytes.data(), 8);
  if (length == 0 || length > bytes.size() - 8) return wrong("it is not a safetensors file");
  const auto header = nlohmann::json::parse(
      bytes.begin() + 8, bytes.begin() + 8 + static_cast<std::ptrdiff_t>(length), nullptr, false);
  if (!header.is_object()) return wrong("its header is not JSON");
  std::optional<nlohmann::json> only;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__" || (!wanted.empty() && name != wanted)) continue;
    if (only) return wrong("it holds several tensors");
    only = entry;
  }
  try {
    if (!only) return wrong("it holds no tensor" + (wanted.empty() ? "" : " \"" + wanted + "\""));
    const auto dtype = safetensors_dtype(only->at("dtype"));
    if (!dtype) return wrong("it is of dtype " + only->at("dtype").get<std::string>());
    const auto offsets = only->at("data_offsets").get<std::vector<std::uint64_t>>();
    const auto shape = only->at("shape").get<std::vector<std::int64_t>>();
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > bytes.size()) {
      return wrong("its offsets are wrong");
    }
    return copy_of(bytes, 8 + length + offsets[0], offsets[1] - offsets[0], shape, *dtype);
  } catch (const nlohmann::json::exception&) {
    return wrong("its header is wrong");
  }
}

}  // namespace tt::checkpoint
