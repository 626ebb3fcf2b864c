#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "src/record/export/arrays.h"
#include "src/record/export/exporter.h"
#include "src/record/export/output_file.h"
#include "tensor_tracer/base/check.h"

// safetensors := length of the header (u64), header, data
// header := JSON {"__metadata__": {text: text}, name: {"dtype", "shape", "data_offsets"}}, padded
// with
//           spaces to a multiple of 8; the data has no holes
namespace tt::record {
namespace {

using nlohmann::json;
using protocol::Dtype;

const char* dtype_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
      return "F64";
    case Dtype::kF32:
      return "F32";
    case Dtype::kF16:
      return "F16";
    case Dtype::kBf16:
      return "BF16";
    case Dtype::kI32:
      return "I32";
    case Dtype::kI64:
      return "I64";
    case Dtype::kU8:
      return "U8";
  }
  throw std::logic_error("an array of a dtype that safetensors does not have");
}

std::string header_of(const Source& source, const std::vector<Array>& arrays) {
  json header = {{"__metadata__", {{"format", "tensor-tracer recording"}, {"run", source.run.id}}}};
  std::uint64_t offset = 0;
  for (const Array& array : arrays) {
    const std::uint64_t end = offset + bytes_of(array);
    header[array.name] = {{"dtype", dtype_name(array.dtype)},
                          {"shape", array.shape},
                          {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

void write_safetensors(const Source& source, const std::string& path, bool raw) {
  std::vector<Array> arrays = make_arrays(source, {.bf16 = true, .raw = raw});
  // The widest first: every array is aligned, as the data begins at a multiple of 8.
  std::ranges::stable_sort(arrays, std::greater(),
                           [](const Array& array) { return protocol::dtype_bytes(array.dtype); });
  OutputFile file(path);
  const std::string header = header_of(source, arrays);
  const std::uint64_t size = header.size();
  file.write(std::as_bytes(std::span(&size, 1)));
  file.write(header);
  for (const Array& array : arrays) {
    std::uint64_t written = 0;
    array.write([&](std::span<const std::byte> bytes) {
      written += bytes.size();
      file.write(bytes);
    });
    TT_CHECK_EQ(written, bytes_of(array));
  }
  file.commit();
}

}  // namespace tt::record
