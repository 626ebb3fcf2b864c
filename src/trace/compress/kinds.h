#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tensor_tracer/trace/compressor.h"

/// The readers of each kind's JSON form, for the table in registry.cpp.
namespace tt::trace {

using ParsedCompressor = base::Result<std::shared_ptr<const Compressor>>;

inline ParsedCompressor parsed(Compressor compressor) {
  return std::make_shared<const Compressor>(std::move(compressor));
}

// The list is in CMakeLists.txt: TT_COMPRESSOR(<kind>) for each.
#define TT_COMPRESSOR(kind)                                                           \
  ParsedCompressor parse_##kind(const nlohmann::json& text, const std::string& where, \
                                const CompressorContext& context);
TT_COMPRESSORS
#undef TT_COMPRESSOR

/// Vectors of one entry; has a test.
inline constexpr std::size_t kMaxVectors = 32;

/// Every column, as compressor "none" takes them.
std::shared_ptr<const Packing> make_copy_packing(const LogicalShape& shape, bool is_double);

}  // namespace tt::trace
