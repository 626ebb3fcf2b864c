// A manifest.json → the files of a checkpoint, all in its folder, or an error that can be shown.
// The manifest as a text again is the same manifest.
#include <nlohmann/json.hpp>

#include "tensor_tracer/checkpoint/manifest.h"
#include "tests/fuzz/error_check.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tt::fuzz::require;
  const auto manifest =
      tt::checkpoint::parse_manifest(tt::fuzz::as_text(data, size), "manifest.json");
  if (!manifest) {
    tt::fuzz::check_error(manifest.error());
    return 0;
  }
  require(manifest.value().step >= 0, "a step counts from 0");
  for (const auto& file : manifest.value().files) {
    const bool is_name = file.name.find('/') == std::string::npos &&
                         file.name.find('\0') == std::string::npos && !file.name.empty() &&
                         file.name != "." && file.name != "..";
    require(is_name, "a file lies in the folder");
  }
  const std::string text = to_text(manifest.value());
  const auto again = tt::checkpoint::parse_manifest(text, "manifest.json");
  require(again.ok() && to_text(again.value()) == text, "a manifest is written as it was read");
  return 0;
}
