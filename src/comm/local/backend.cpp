#include "src/comm/local/backend.h"

#include "src/comm/local/single_group.h"
#include "tensor_tracer/base/check.h"

namespace tt::comm::local {
namespace {

class LocalBackend final : public detail::Backend {
 public:
  std::shared_ptr<detail::GroupImpl> world() const override { return detail::make_single_group(); }
  void finish() override {}
  void abort(int) const override {}
};

}  // namespace

bool is_available() { return true; }

std::unique_ptr<detail::Backend> start(const Launch& launch, const WorldOptions&) {
  TT_CHECK_EQ(launch.world_size, 1);
  return std::make_unique<LocalBackend>();
}

}  // namespace tt::comm::local
