#include "src/trace/forward_buffer.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "tensor_tracer/base/hash.h"

namespace tt::trace {
namespace {

// Each part begins with eight bytes, the first of which is 0 until it was written.
constexpr std::size_t kMarkBytes = 8;
constexpr std::byte kWrittenMark{1};
constexpr std::byte kTookTooLongMark{2};
constexpr std::byte kUnreachedMark{3};

}  // namespace

std::size_t Slot::bytes_of(std::size_t rank) const {
  const std::size_t bytes =
      packing != nullptr ? packing->part_bytes(rank) : (rank == 0 ? leader_bytes : 0);
  if (bytes == 0) return 0;
  return kMarkBytes + (bytes + 7) / 8 * 8;
}

ForwardBuffer::ForwardBuffer(const comm::ProcessGroup& group)
    : group_(group), rank_bytes_(static_cast<std::size_t>(group.size())) {}

void ForwardBuffer::clear() {
  slots_.clear();
  std::ranges::fill(rank_bytes_, 0);
}

std::size_t ForwardBuffer::add(Slot slot) {
  slot.offset = rank_bytes_;
  for (std::size_t rank = 0; rank < rank_bytes_.size(); ++rank) {
    rank_bytes_[rank] += slot.bytes_of(rank);
  }
  const auto own = static_cast<std::size_t>(group_.rank());
  if (own_.size() < rank_bytes_[own]) own_.resize(rank_bytes_[own]);
  if (slot.bytes_of(own) > 0) std::memset(own_.data() + slot.offset[own], 0, kMarkBytes + 1);
  slots_.push_back(std::move(slot));
  return slots_.size() - 1;
}

std::byte* ForwardBuffer::own_part(const Slot& slot) {
  const auto own = static_cast<std::size_t>(group_.rank());
  if (slot.bytes_of(own) == 0) return nullptr;
  return own_.data() + slot.offset[own] + kMarkBytes;
}

void ForwardBuffer::mark_written(const Slot& slot, bool took_too_long) {
  const auto own = static_cast<std::size_t>(group_.rank());
  if (slot.bytes_of(own) == 0) return;
  own_[slot.offset[own]] = took_too_long ? kTookTooLongMark : kWrittenMark;
}

void ForwardBuffer::mark_unreached(const Slot& slot) {
  const auto own = static_cast<std::size_t>(group_.rank());
  if (slot.bytes_of(own) > 0) own_[slot.offset[own]] = kUnreachedMark;
}

void ForwardBuffer::mark_failed(const Slot& slot, std::string_view why) {
  std::byte* text = own_part(slot);
  if (text == nullptr) return;
  const std::size_t room = slot.bytes_of(static_cast<std::size_t>(group_.rank())) - kMarkBytes;
  std::memset(text, 0, room);
  std::memcpy(text, why.data(), std::min(why.size(), room));
  own_[slot.offset[static_cast<std::size_t>(group_.rank())]] = std::byte{0};
}

std::uint64_t ForwardBuffer::layout_hash() const {
  std::uint64_t hash = slots_.size();
  for (const Slot& slot : slots_) {
    hash = base::mix(hash, (slot.entry << 32U) + static_cast<std::uint64_t>(slot.layer));
  }
  for (const std::size_t bytes : rank_bytes_) hash = base::mix(hash, bytes);
  return hash;
}

void ForwardBuffer::start_gather() {
  is_pending_ = true;
  const std::size_t others =
      std::accumulate(rank_bytes_.begin() + 1, rank_bytes_.end(), std::size_t{0});
  rank_begin_.assign(rank_bytes_.size(), 0);
  if (others == 0) return;
  std::exclusive_scan(rank_bytes_.begin(), rank_bytes_.end(), rank_begin_.begin(), std::size_t{0});
  const bool is_root = group_.rank() == 0;
  if (is_root && all_.size() < others + rank_bytes_[0]) all_.resize(others + rank_bytes_[0]);
  const auto own = static_cast<std::size_t>(group_.rank());
  gather_ = group_.gather_bytes(
      comm::host_bytes({own_.data(), rank_bytes_[own]}), rank_bytes_,
      comm::host_bytes({all_.data(), is_root ? others + rank_bytes_[0] : 0}), 0);
}

void ForwardBuffer::finish_gather() {
  is_pending_ = false;
  gather_.wait();
}

const std::byte* ForwardBuffer::marked_part(const Slot& slot, std::size_t rank) const {
  const std::byte* begin = rank == 0 ? own_.data() : all_.data() + rank_begin_[rank];
  return begin + slot.offset[rank];
}

std::vector<const std::byte*> ForwardBuffer::parts_of(const Slot& slot) const {
  std::vector<const std::byte*> parts(rank_bytes_.size(), nullptr);
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (slot.bytes_of(rank) > 0) parts[rank] = marked_part(slot, rank) + kMarkBytes;
  }
  return parts;
}

ForwardBuffer::Outcome ForwardBuffer::outcome(const Slot& slot) const {
  Outcome worst = Outcome::kWritten;
  for (std::size_t rank = 0; rank < rank_bytes_.size(); ++rank) {
    if (slot.bytes_of(rank) == 0) continue;
    const std::byte mark = *marked_part(slot, rank);
    if (mark == kTookTooLongMark) worst = std::max(worst, Outcome::kTookTooLong);
    if (mark == kUnreachedMark) worst = std::max(worst, Outcome::kUnreached);
    if (mark == std::byte{0}) worst = Outcome::kFailed;
  }
  return worst;
}

std::string ForwardBuffer::failure(const Slot& slot) const {
  for (std::size_t rank = 0; rank < rank_bytes_.size(); ++rank) {
    if (slot.bytes_of(rank) == 0 || *marked_part(slot, rank) != std::byte{0}) continue;
    const auto* text = reinterpret_cast<const char*>(marked_part(slot, rank) + kMarkBytes);
    const std::string why(text, strnlen(text, slot.bytes_of(rank) - kMarkBytes));
    return "tensor rank " + std::to_string(rank) +
           (why.empty() ? " could not capture it" : ": " + why);
  }
  return "";
}

}  // namespace tt::trace
