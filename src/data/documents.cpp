#include "tensor_tracer/data/documents.h"

#include <cmath>

namespace tt::data {

std::int64_t num_tokens(const Documents& documents) {
  std::int64_t tokens = 0;
  for (std::int64_t document = 0; document < documents.size(); ++document)
    tokens += documents.length(document);
  return tokens;
}

double unigram_entropy(const Documents& documents) {
  std::vector<std::int64_t> counts, ids;
  double all = 0;
  for (std::int64_t document = 0; document < documents.size(); ++document) {
    ids.resize(static_cast<std::size_t>(documents.length(document)));
    documents.read(document, 0, ids);
    all += static_cast<double>(ids.size());
    for (const std::int64_t id : ids) {
      const auto index = static_cast<std::size_t>(id);
      if (index >= counts.size()) counts.resize(index + 1);
      ++counts[index];
    }
  }
  double entropy = 0;
  for (const std::int64_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / all;
    entropy -= share * std::log(share);
  }
  return entropy;
}

}  // namespace tt::data
