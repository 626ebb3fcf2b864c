#include <string>
#include <thread>
#include <vector>

#include "src/comm/local/group.h"
#include "tensor_tracer/base/check.h"
#include "tensor_tracer/comm/world.h"

namespace tt::comm {

void run_local(int size, const std::function<void(const ProcessGroup&)>& body) {
  TT_CHECK(size >= 1, std::to_string(size) + " ranks");
  const auto job = std::make_shared<detail::LocalJob>();
  const auto team = std::make_shared<detail::LocalTeam>(job, size);
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.emplace_back([&, rank] {
        base::set_rank_label("rank " + std::to_string(rank));
        try {
          body(ProcessGroup(detail::make_local_group(team, rank)));
        } catch (...) {
          job->fail(std::current_exception());
        }
      });
    }
  }
  if (const std::exception_ptr failure = job->failure()) std::rethrow_exception(failure);
}

}  // namespace tt::comm
