#include "src/trace/forward_buffer.h"

#include <cstring>
#include <numeric>
#include <utility>

namespace tt::trace {
namespace {

// Each part begins with eight bytes: 1 once it was written.
constexpr std::size_t kMarkBytes = 8;

}  // namespace

std::size_t Slot::bytes_of(std::size_t rank) const {
  const std::int64_t values =
      columns != nullptr ? columns->values_per_row[rank] : (rank == 0 ? 1 : 0);
  if (values == 0) return 0;
  const auto numbers = static_cast<std::size_t>(lines * values) * number_bytes;
  return kMarkBytes + (numbers + 7) / 8 * 8;
}

ForwardBuffer::ForwardBuffer(const comm::ProcessGroup& group)
    : group_(group), rank_bytes_(static_cast<std::size_t>(group.size())) {}

void ForwardBuffer::clear() {
  slots_.clear();
  std::ranges::fill(rank_bytes_, 0);
}

Slot& ForwardBuffer::add(Slot slot) {
  slot.offset = rank_bytes_;
  for (std::size_t rank = 0; rank < rank_bytes_.size(); ++rank) {
    rank_bytes_[rank] += slot.bytes_of(rank);
  }
  const auto own = static_cast<std::size_t>(group_.rank());
  if (own_.size() < rank_bytes_[own]) own_.resize(rank_bytes_[own]);
  if (slot.bytes_of(own) > 0) std::memset(own_.data() + slot.offset[own], 0, kMarkBytes);
  slots_.push_back(std::move(slot));
  return slots_.back();
}

std::byte* ForwardBuffer::own_numbers(const Slot& slot) {
  const auto own = static_cast<std::size_t>(group_.rank());
  if (slot.bytes_of(own) == 0) return nullptr;
  return own_.data() + slot.offset[own] + kMarkBytes;
}

void ForwardBuffer::mark_written(const Slot& slot) {
  const auto own = static_cast<std::size_t>(group_.rank());
  if (slot.bytes_of(own) > 0) own_[slot.offset[own]] = std::byte{1};
}

void ForwardBuffer::start_gather() {
  const std::size_t others =
      std::accumulate(rank_bytes_.begin() + 1, rank_bytes_.end(), std::size_t{0});
  rank_begin_.assign(rank_bytes_.size(), 0);
  if (others == 0) return;
  std::exclusive_scan(rank_bytes_.begin(), rank_bytes_.end(), rank_begin_.begin(), std::size_t{0});
  const bool is_root = group_.rank() == 0;
  if (is_root && all_.size() < others + rank_bytes_[0]) all_.resize(others + rank_bytes_[0]);
  const auto own = static_cast<std::size_t>(group_.rank());
  gather_ = group_.gather_bytes({own_.data(), rank_bytes_[own]}, rank_bytes_,
                                {all_.data(), is_root ? others + rank_bytes_[0] : 0}, 0);
}

void ForwardBuffer::finish_gather() { gather_.wait(); }

const std::byte* ForwardBuffer::numbers_of(const Slot& slot, std::size_t rank) const {
  const std::byte* begin = rank == 0 ? own_.data() : all_.data() + rank_begin_[rank];
  return begin + slot.offset[rank] + kMarkBytes;
}

bool ForwardBuffer::complete(const Slot& slot) const {
  for (std::size_t rank = 0; rank < rank_bytes_.size(); ++rank) {
    if (slot.bytes_of(rank) == 0) continue;
    if (*(numbers_of(slot, rank) - kMarkBytes) != std::byte{1}) return false;
  }
  return true;
}

}  // namespace tt::trace
