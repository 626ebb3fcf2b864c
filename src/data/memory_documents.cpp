#include <ATen/ATen.h>

#include <algorithm>

#include "tensor_tracer/data/documents.h"

namespace tt::data {

MemoryDocuments::MemoryDocuments(Tokens tokens, std::vector<std::string> files,
                                 std::vector<std::pair<std::int32_t, std::int32_t>> origins)
    : tokens_(std::move(tokens)), files_(std::move(files)), origins_(std::move(origins)) {}

std::int64_t MemoryDocuments::length(std::int64_t document) const {
  const auto index = static_cast<std::size_t>(document);
  return tokens_.begin[index + 1] - tokens_.begin[index];
}

void MemoryDocuments::read(std::int64_t document, std::int64_t begin,
                           std::span<std::int64_t> ids) const {
  const std::int64_t first = tokens_.begin[static_cast<std::size_t>(document)] + begin;
  std::copy_n(tokens_.ids.const_data_ptr<std::int32_t>() + first, ids.size(), ids.begin());
}

void MemoryDocuments::read_counted(std::int64_t document, std::int64_t begin,
                                   std::span<bool> counted) const {
  if (!has_mask()) {
    std::ranges::fill(counted, true);
    return;
  }
  const std::int64_t first = tokens_.begin[static_cast<std::size_t>(document)] + begin;
  std::copy_n(tokens_.counted.const_data_ptr<bool>() + first, counted.size(), counted.begin());
}

std::string MemoryDocuments::name(std::int64_t document) const {
  const auto index = static_cast<std::size_t>(document);
  if (index >= origins_.size()) return "document " + std::to_string(document + 1);
  const auto& [file, line] = origins_[index];
  return "line " + std::to_string(line) + " of \"" + files_[static_cast<std::size_t>(file)] + "\"";
}

}  // namespace tt::data
