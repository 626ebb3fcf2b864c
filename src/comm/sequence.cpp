#include "src/comm/sequence.h"

#include <sstream>
#include <vector>

namespace tt::comm::detail {

std::string describe(std::span<const Sequence::State> states) {
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

}  // namespace tt::comm::detail
