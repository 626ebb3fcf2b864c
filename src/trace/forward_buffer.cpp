#include "src/trace/forward_buffer.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "tensor_tracer/base/hash.h"

namespace tt::trace {
namespace {

// Each part begins with eight bytes. The first byte is the outcome.
constexpr std::size_t kMarkBytes = 8;

}  // namespace

std::size_t Slot::bytes_of(std::size_t rank) const {
  const std::size_t bytes =
      packing != nullptr ? packing->part_bytes(rank) : (rank == 0 ? leader_bytes : 0);
  if (bytes == 0) return 0;
  return kMarkBytes + (bytes + 7) / 8 * 8;
}

ForwardBuffer::ForwardBuffer(const comm::ProcessGroup& group)
    : group_(group),
      own_rank_(static_cast<std::size_t>(group.rank())),
      rank_bytes_(static_cast<std::size_t>(group.size())) {}

void ForwardBuffer::clear() {
  slots_.clear();
  std::ranges::fill(rank_bytes_, 0);
}

std::size_t ForwardBuffer::add(Slot slot) {
  slot.offset = rank_bytes_;
  for (std::size_t rank = 0; rank < rank_bytes_.size(); ++rank)
    rank_bytes_[rank] += slot.bytes_of(rank);
  if (own_.size() < rank_bytes_[own_rank_]) own_.resize(rank_bytes_[own_rank_]);
  mark_failed(slot, "");
  slots_.push_back(std::move(slot));
  return slots_.size() - 1;
}

std::byte* ForwardBuffer::own_part(const Slot& slot) {
  if (slot.bytes_of(own_rank_) == 0) return nullptr;
  return own_.data() + slot.offset[own_rank_] + kMarkBytes;
}

void ForwardBuffer::mark(const Slot& slot, Outcome outcome) {
  if (slot.bytes_of(own_rank_) > 0) own_[slot.offset[own_rank_]] = static_cast<std::byte>(outcome);
}

void ForwardBuffer::mark_failed(const Slot& slot, std::string_view why) {
  std::byte* text = own_part(slot);
  if (text == nullptr) return;
  const std::size_t length = std::min(why.size(), slot.bytes_of(own_rank_) - kMarkBytes - 1);
  std::memcpy(text, why.data(), length);
  text[length] = std::byte{0};
  mark(slot, Outcome::kFailed);
}

std::uint64_t ForwardBuffer::layout_hash() const {
  std::uint64_t hash = slots_.size();
  for (const Slot& slot : slots_)
    hash = base::mix(hash, (slot.entry << 32U) + static_cast<std::uint64_t>(slot.layer));
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
  const bool is_root = own_rank_ == 0;
  if (is_root && all_.size() < others + rank_bytes_[0]) all_.resize(others + rank_bytes_[0]);
  gather_ = group_.gather_bytes(
      comm::host_bytes({own_.data(), rank_bytes_[own_rank_]}), rank_bytes_,
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
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    if (slot.bytes_of(rank) > 0) parts[rank] = marked_part(slot, rank) + kMarkBytes;
  return parts;
}

ForwardBuffer::Outcome ForwardBuffer::outcome_of(const Slot& slot, std::size_t rank) const {
  return static_cast<Outcome>(*marked_part(slot, rank));
}

ForwardBuffer::Outcome ForwardBuffer::outcome(const Slot& slot) const {
  Outcome worst = Outcome::kWritten;
  for (std::size_t rank = 0; rank < rank_bytes_.size(); ++rank)
    if (slot.bytes_of(rank) > 0) worst = std::max(worst, outcome_of(slot, rank));
  return worst;
}

std::string ForwardBuffer::failure(const Slot& slot) const {
  for (std::size_t rank = 0; rank < rank_bytes_.size(); ++rank) {
    if (slot.bytes_of(rank) == 0 || outcome_of(slot, rank) != Outcome::kFailed) continue;
    const auto* text = reinterpret_cast<const char*>(marked_part(slot, rank) + kMarkBytes);
    const std::string why(text, strnlen(text, slot.bytes_of(rank) - kMarkBytes));
    return "tensor rank " + std::to_string(rank) +
           (why.empty() ? " could not capture it" : ": " + why);
  }
  return "";
}

}  // namespace tt::trace
