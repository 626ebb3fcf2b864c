#include "src/checkpoint/dtypes.h"

#include "tensor_tracer/checkpoint/tensor_table.h"
#include "tensor_tracer/dtypes/names.h"

namespace tt::checkpoint {

std::optional<std::string> safetensors_name(c10::ScalarType dtype) {
  return safetensors_name_of(dtypes::name_of(dtype));
}

std::optional<c10::ScalarType> dtype_of_safetensors(std::string_view name) {
  if (!bytes_of_dtype(name)) return std::nullopt;
  return dtypes::find(torch_name_of_dtype(name));
}

}  // namespace tt::checkpoint
