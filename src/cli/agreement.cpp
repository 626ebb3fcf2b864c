#include "src/cli/agreement.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor_tracer/base/hash.h"
#include "tensor_tracer/comm/collectives.h"

namespace tt::cli {
namespace {

using config::TrainConfig;
using nlohmann::json;

constexpr std::int64_t kSamples = 1024;
constexpr std::int64_t kSampleBytes = 64;

std::string describe(const data::TextCorpus& corpus) {
  std::uint64_t hash = 0;
  const std::int64_t bytes = std::min(kSampleBytes, corpus.size());
  std::string sample(static_cast<std::size_t>(bytes), '\0');
  for (std::int64_t i = 0; i < kSamples; ++i) {
    corpus.read(i * ((corpus.size() - bytes) / kSamples),
                {reinterpret_cast<std::uint8_t*>(sample.data()), sample.size()});
    hash = base::mix(hash, base::hash_of(sample));
  }
  return fmt::format("{} bytes in {} files (hash of samples {:016x})", corpus.size(),
                     corpus.num_files(), hash);
}

struct Row {
  std::string flag;
  std::string value;
  std::string remedy = "give all ranks the same";
};

std::string shown(const config::Option& option) {
  const json value = config::value_of(option);
  if (option.agreement == config::Agreement::kValue) return config::text_of(value);
  return config::text_of(value).empty() ? "no value" : "a value";
}

std::vector<Row> rows_of(const TrainConfig& config, const data::TextCorpus& corpus) {
  std::vector<Row> rows;
  TrainConfig compared = config.resolved();
  for (const config::Option& option : config::train_options(compared)) {
    if (option.agreement == config::Agreement::kNothing) continue;
    rows.push_back({option.flag, shown(option)});
  }
  rows.push_back({"--data-path", describe(corpus),
                  "give all ranks the same, and leave out files that are written to as they start, "
                  "with --data-exclude"});
  return rows;
}

// Rank 0's values, in the order of the rows.
std::vector<std::string> first_values(const std::vector<Row>& rows,
                                      const comm::ProcessGroup& world) {
  std::vector<std::string> values;
  for (const Row& row : rows) values.push_back(row.value);
  std::string packed;
  json::to_msgpack(values, packed);
  comm::broadcast_text(world, packed, 0);
  return json::from_msgpack(packed).get<std::vector<std::string>>();
}

}  // namespace

base::Status check_agreement(const TrainConfig& config, const data::TextCorpus& corpus,
                             const comm::ProcessGroup& world) {
  const std::vector<Row> rows = rows_of(config, corpus);
  const std::vector<std::string> first = first_values(rows, world);
  const auto other = std::ranges::mismatch(rows, first, {}, &Row::value).in1;
  const auto options = at::device(at::kCPU).dtype(at::kLong);
  const at::Tensor own = at::full({1}, other - rows.begin(), options);
  at::Tensor all = at::empty({world.size()}, options);
  world.all_gather(own, all);
  for (int rank = 1; rank < world.size(); ++rank) {
    const auto index = static_cast<std::size_t>(all[rank].item<std::int64_t>());
    if (index == rows.size()) continue;
    const Row& row = rows[index];
    std::string value = row.value;
    comm::broadcast_text(world, value, rank);
    return base::Error{"invalid_argument",
                       fmt::format("rank {} has {}, rank 0 has {}", rank, value, first[index]),
                       row.flag, row.remedy};
  }
  return {};
}

}  // namespace tt::cli
