#include "src/cli/shared_store.h"

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/cli/agreement.h"
#include "tensor_tracer/comm/collectives.h"

namespace tt::cli {
namespace {

using checkpoint::TensorStore;
using nlohmann::json;

// This rank may see another folder under the same path.
base::Status compare_files(const base::Result<TensorStore>& store,
                           const std::map<std::string, std::string>& first) {
  if (!store) return store.error();
  for (const auto& [path, fingerprint] : store.value().fingerprints()) {
    if (const auto other = first.find(path); other != first.end() && other->second != fingerprint) {
      return base::Error{"invalid_argument",
                         "has " + fingerprint + ", and rank 0 has " + other->second, path,
                         "give all ranks the same folder"};
    }
  }
  return {};
}

}  // namespace

base::Result<std::shared_ptr<TensorStore>> open_shared_store(std::string& folder,
                                                             std::vector<std::string> files,
                                                             const comm::ProcessGroup& world) {
  const bool is_first = world.rank() == 0;
  base::Result<TensorStore> store = base::Error{};
  std::string packed;
  if (is_first) {
    store = TensorStore::open(folder, files);
    const json prints = store ? json(store.value().fingerprints()) : json::object();
    json::to_msgpack({{"folder", folder}, {"files", files}, {"fingerprints", prints}}, packed);
  }
  comm::broadcast_text(world, packed, 0);
  const json shared = json::from_msgpack(packed);
  if (!is_first) {
    folder = shared.at("folder");
    store = TensorStore::open(folder, shared.at("files"));
  }
  if (auto status = share_status(compare_files(store, shared.at("fingerprints")), world); !status)
    return status.error();
  return std::make_shared<TensorStore>(std::move(store).value());
}

}  // namespace tt::cli
