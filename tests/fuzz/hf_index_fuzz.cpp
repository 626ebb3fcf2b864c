// A model.safetensors.index.json → names of .safetensors files in its folder, or an error that can
// be shown.
#include <nlohmann/json.hpp>

#include "tensor_tracer/hf/model.h"
#include "tensor_tracer/protocol/message.h"
#include "tests/fuzz/error_check.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tt::fuzz::require;
  const auto parsed = tt::protocol::parse_json(tt::fuzz::as_text(data, size));
  if (!parsed || !parsed.value().is_object()) return 0;
  const auto files = tt::hf::files_of_index(parsed.value(), "model.safetensors.index.json");
  if (!files) {
    tt::fuzz::check_error(files.error());
    return 0;
  }
  require(!files.value().empty(), "an index names a file");
  for (const std::string& file : files.value()) {
    require(file.find('/') == std::string::npos && file.find('\0') == std::string::npos,
            "a file lies in the folder");
    require(file.ends_with(".safetensors") && file.size() > 12, "it is a file of tensors");
  }
  return 0;
}
