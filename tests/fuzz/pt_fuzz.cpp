// The bytes of a .pt file → a tensor that lies in them, or an error that can be printed.
#include "tests/fuzz/tensor_check.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tt::fuzz::check_tensor(tt::checkpoint::find_in_pt(tt::fuzz::as_text(data, size)), size);
  return 0;
}
