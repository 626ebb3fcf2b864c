#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tensor_tracer/trace/compressor.h"

/// One parser for each compressor kind, for the table in registry.cpp.
namespace tt::trace {

using ParsedCompressor = base::Result<std::shared_ptr<const Compressor>>;

inline ParsedCompressor parsed(Compressor compressor) {
  return std::make_shared<const Compressor>(std::move(compressor));
}

// CMakeLists.txt defines the list: TT_COMPRESSOR(<kind>) for each kind.
#define TT_COMPRESSOR(kind)                                                           \
  ParsedCompressor parse_##kind(const nlohmann::json& text, const std::string& where, \
                                const CompressorContext& context);
TT_COMPRESSORS
#undef TT_COMPRESSOR

/// Limit of vectors per entry; has a test.
inline constexpr std::size_t kMaxVectors = 32;

/// Copies every column; compressor "none" uses it.
std::shared_ptr<const Packing> make_copy_packing(const LogicalShape& shape, bool is_double);

}  // namespace tt::trace
