#include "src/cli/agreement.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/checkpoint/checkpoint_writer.h"
#include "tensor_tracer/comm/collectives.h"

namespace tt::cli {
namespace {

using config::TrainConfig;
using nlohmann::json;

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

std::vector<Row> rows_of(const TrainConfig& config, const std::string& data) {
  std::vector<Row> rows;
  TrainConfig compared = config.resolved();
  for (const config::Option& option : config::train_options(compared)) {
    if (option.agreement == config::Agreement::kNothing) continue;
    rows.push_back({option.flag, shown(option)});
  }
  rows.push_back({"--data-path", data,
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

base::Status check_agreement(const TrainConfig& config, const std::string& data,
                             const comm::ProcessGroup& world) {
  const std::vector<Row> rows = rows_of(config, data);
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

base::Status check_shared_folder(const std::string& folder, const comm::ProcessGroup& world) {
  if (folder.empty()) return {};
  std::string probe;
  if (world.rank() == 0) {
    probe = folder + "/" + checkpoint::kUnfinished + "probe-" + base::random_hex(8);
    if (!base::write_private_file(probe, "")) probe.clear();
  }
  comm::broadcast_text(world, probe, 0);
  std::error_code error;
  base::Status seen;
  if (probe.empty() || !std::filesystem::exists(probe, error)) {
    seen = base::invalid_argument("--save", "\"" + folder + "\" is not the folder of rank 0",
                                  "give a folder that all ranks share and can write to");
  }
  seen = share_status(seen, world);
  if (world.rank() == 0) std::filesystem::remove(probe, error);
  return seen;
}

base::Status check_same_options(const json& given, const comm::ProcessGroup& world) {
  std::string packed;
  if (world.rank() == 0) json::to_msgpack(given, packed);
  comm::broadcast_text(world, packed, 0);
  base::Status same;
  if (json::from_msgpack(packed) != given) {
    same = base::invalid_argument("options", "are not those of rank 0",
                                  "give all ranks the same command line");
  }
  return share_status(same, world);
}

base::Status share_status(const base::Status& own, const comm::ProcessGroup& world) {
  const auto options = at::device(at::kCPU).dtype(at::kLong);
  const at::Tensor failed = at::full({1}, own.ok() ? 0 : 1, options);
  at::Tensor all = at::empty({world.size()}, options);
  world.all_gather(failed, all);
  for (int rank = 0; rank < world.size(); ++rank) {
    if (all[rank].item<std::int64_t>() == 0) continue;
    std::string packed;
    if (world.rank() == rank) {
      const base::Error& error = own.error();
      json::to_msgpack(json{error.code, error.message, error.where, error.remedy}, packed);
    }
    comm::broadcast_text(world, packed, rank);
    const json error = json::from_msgpack(packed);
    const std::string who = rank == 0 ? "" : fmt::format("rank {}: ", rank);
    return base::Error{error[0], who + error[1].get<std::string>(), error[2], error[3]};
  }
  return {};
}

}  // namespace tt::cli
