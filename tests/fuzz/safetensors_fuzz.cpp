// The bytes of a safetensors file → its only tensor, or that named "a", which lies in them; or an
// error that can be printed.
#include "tests/fuzz/tensor_check.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = tt::fuzz::as_text(data, size);
  tt::fuzz::check_tensor(tt::checkpoint::find_in_safetensors(file, ""), size);
  tt::fuzz::check_tensor(tt::checkpoint::find_in_safetensors(file, "a"), size);
  return 0;
}
