#include "src/comm/mpi/shared_collectives.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace tt::comm::detail {
namespace {

constexpr std::size_t kSlotBytes = SharedSegment::kSlotBytes;

/// Every rank reads all slots. Per chunk: one meeting, and each rank reads (ranks - 1) chunks.
void all_reduce_whole(SharedSegment& segment, std::byte* data, Elements chunk, ReduceOp op,
                      std::vector<const void*>& sources) {
  segment.turn();
  std::memcpy(segment.slot(segment.rank()), data, chunk.bytes());
  segment.meet();
  for (int rank = 0; rank < segment.size(); ++rank) sources[rank] = segment.slot(rank);
  sources[segment.rank()] = data;
  reduce_in_order(sources, data, chunk, op);
}

/// Every rank reduces one part in its slot, and reads the results of the other ranks. Per chunk:
/// two meetings, and each rank reads about two chunks, for any number of ranks.
void all_reduce_parts(SharedSegment& segment, std::byte* data, Elements chunk, ReduceOp op,
                      std::vector<const void*>& sources) {
  segment.turn();
  std::memcpy(segment.slot(segment.rank()), data, chunk.bytes());
  segment.meet();
  const std::size_t item = c10::elementSize(chunk.dtype);
  const auto begin_of = [&](int rank) { return chunk.count * rank / segment.size(); };
  const std::int64_t begin = begin_of(segment.rank());
  const std::int64_t length = begin_of(segment.rank() + 1) - begin;
  for (int rank = 0; rank < segment.size(); ++rank)
    sources[rank] = segment.slot(rank) + begin * item;
  reduce_in_order(sources, segment.slot(segment.rank()) + begin * item, {length, chunk.dtype}, op);
  segment.meet();
  for (int rank = 0; rank < segment.size(); ++rank) {
    const std::size_t from = begin_of(rank) * item;
    std::memcpy(data + from, segment.slot(rank) + from, begin_of(rank + 1) * item - from);
  }
}

}  // namespace

void shared_all_reduce(SharedSegment& segment, void* data, Elements elements, ReduceOp op) {
  const std::size_t item = c10::elementSize(elements.dtype);
  const auto slot_count = static_cast<std::int64_t>(kSlotBytes / item);
  std::vector<const void*> sources(segment.size());
  for (std::int64_t begin = 0; begin < elements.count; begin += slot_count) {
    const Elements chunk{std::min(slot_count, elements.count - begin), elements.dtype};
    std::byte* place = static_cast<std::byte*>(data) + begin * item;
    if (segment.size() == 2 || chunk.bytes() < 16384)
      all_reduce_whole(segment, place, chunk, op, sources);
    else
      all_reduce_parts(segment, place, chunk, op, sources);
  }
}

void shared_reduce_scatter(SharedSegment& segment, const void* input, void* output,
                           Elements elements, ReduceOp op) {
  const auto* source = static_cast<const std::byte*>(input);
  const std::size_t item = c10::elementSize(elements.dtype);
  const auto slot_count = static_cast<std::int64_t>(kSlotBytes / item / segment.size());
  std::vector<const void*> sources(segment.size());
  for (std::int64_t begin = 0; begin < elements.count; begin += slot_count) {
    const Elements chunk{std::min(slot_count, elements.count - begin), elements.dtype};
    const auto part_of = [&](int rank) { return source + (rank * elements.count + begin) * item; };
    segment.turn();
    std::byte* own = segment.slot(segment.rank());
    for (int rank = 0; rank < segment.size(); ++rank) {
      if (rank == segment.rank()) continue;
      std::memcpy(own + rank * chunk.bytes(), part_of(rank), chunk.bytes());
    }
    segment.meet();
    for (int rank = 0; rank < segment.size(); ++rank)
      sources[rank] = segment.slot(rank) + segment.rank() * chunk.bytes();
    sources[segment.rank()] = part_of(segment.rank());
    reduce_in_order(sources, static_cast<std::byte*>(output) + begin * item, chunk, op);
  }
}

void shared_all_gather(SharedSegment& segment, const void* input, void* output, std::size_t bytes) {
  auto* target = static_cast<std::byte*>(output);
  const auto* source = static_cast<const std::byte*>(input);
  std::byte* own_part = target + segment.rank() * bytes;
  for (std::size_t begin = 0; begin < bytes; begin += kSlotBytes) {
    const std::size_t length = std::min(kSlotBytes, bytes - begin);
    segment.turn();
    std::memcpy(segment.slot(segment.rank()), source + begin, length);
    segment.meet();
    if (own_part != source) std::memcpy(own_part + begin, source + begin, length);
    for (int rank = 0; rank < segment.size(); ++rank) {
      if (rank == segment.rank()) continue;
      std::memcpy(target + rank * bytes + begin, segment.slot(rank), length);
    }
  }
}

void shared_broadcast(SharedSegment& segment, void* data, std::size_t bytes, int root) {
  auto* target = static_cast<std::byte*>(data);
  for (std::size_t begin = 0; begin < bytes; begin += kSlotBytes) {
    const std::size_t length = std::min(kSlotBytes, bytes - begin);
    segment.turn();
    if (segment.rank() == root) std::memcpy(segment.slot(root), target + begin, length);
    segment.meet();
    if (segment.rank() != root) std::memcpy(target + begin, segment.slot(root), length);
  }
}

}  // namespace tt::comm::detail
