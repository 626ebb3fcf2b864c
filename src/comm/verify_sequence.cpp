#include <algorithm>
#include <span>
#include <sstream>
#include <vector>

#include "src/comm/group_impl.h"
#include "tensor_tracer/base/check.h"
#include "tensor_tracer/comm/process_group.h"

namespace tt::comm {
namespace {

using State = detail::Sequence::State;

/// "ranks 0, 2 made 5 calls (hash 3f); rank 1 made 4 calls (hash 8a)".
std::string describe(const std::vector<State>& states) {
  std::vector<bool> told(states.size(), false);
  std::ostringstream out;
  for (std::size_t first = 0; first < states.size(); ++first) {
    if (told[first]) continue;
    std::ostringstream ranks;
    int count = 0;
    for (std::size_t rank = first; rank < states.size(); ++rank) {
      if (states[rank] != states[first]) continue;
      ranks << (count++ == 0 ? "" : ", ") << rank;
      told[rank] = true;
    }
    out << (first == 0 ? "" : "; ") << (count == 1 ? "rank " : "ranks ") << ranks.str() << " made "
        << states[first].calls << " calls (hash " << std::hex << states[first].hash << std::dec
        << ")";
  }
  return out.str();
}

}  // namespace

void ProcessGroup::verify_sequence() const {
  if constexpr (detail::kHashSequence) {
    std::vector<State> states(size());
    at::Tensor all = host_bytes(std::as_bytes(std::span(states)));
    impl_->all_gather(host_bytes(std::as_bytes(std::span(&impl_->sequence().state(), 1))), all);
    const bool same =
        std::all_of(states.begin(), states.end(), [&](const State& s) { return s == states[0]; });
    TT_CHECK(same, "the ranks called different collectives: " + describe(states));
  }
}

}  // namespace tt::comm
