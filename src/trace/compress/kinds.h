#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tensor_tracer/trace/compressor.h"

/// The readers of each kind's JSON form, for the table in registry.cpp.
namespace tt::trace {

using ParsedCompressor = base::Result<std::shared_ptr<const Compressor>>;

template <typename Kind, typename... Arguments>
ParsedCompressor made(Arguments&&... arguments) {
  return std::shared_ptr<const Compressor>(
      std::make_shared<const Kind>(std::forward<Arguments>(arguments)...));
}

ParsedCompressor parse_tile(const nlohmann::json& text, const std::string& where,
                            const CompressorContext& context);
ParsedCompressor parse_none(const nlohmann::json& text, const std::string& where,
                            const CompressorContext& context);
ParsedCompressor parse_empty(const nlohmann::json& text, const std::string& where,
                             const CompressorContext& context);
ParsedCompressor parse_stats(const nlohmann::json& text, const std::string& where,
                             const CompressorContext& context);
ParsedCompressor parse_projection(const nlohmann::json& text, const std::string& where,
                                  const CompressorContext& context);
ParsedCompressor parse_topk(const nlohmann::json& text, const std::string& where,
                            const CompressorContext& context);

/// Vectors of one entry; has a test.
inline constexpr std::size_t kMaxVectors = 32;

/// Every column, as compressor "none" takes them.
std::shared_ptr<const Packing> make_copy_packing(const LogicalShape& shape, bool is_double);

}  // namespace tt::trace
