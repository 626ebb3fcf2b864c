#include "src/trace/forward_buffer.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

#include "tensor_tracer/base/hash.h"

namespace tt::trace {
namespace {

// Each part begins with eight bytes. The first byte is the outcome.
constexpr std::size_t kMarkBytes = 8;

at::Tensor no_bytes(const DeviceRuntime* runtime) {
  const at::Device on = runtime == nullptr ? at::Device(at::kCPU) : runtime->device();
  return at::empty({0}, at::device(on).dtype(at::kByte));
}

std::int64_t size_of(std::size_t bytes) { return static_cast<std::int64_t>(bytes); }

std::byte* data_of(const at::Tensor& bytes) {
  return static_cast<std::byte*>(bytes.mutable_data_ptr());
}

// Makes room for `bytes`; the first `used` bytes stay.
void grow(at::Tensor& memory, std::size_t bytes, std::size_t used) {
  if (memory.numel() >= size_of(bytes)) return;
  const at::Tensor larger = at::zeros({size_of((bytes * 5 / 4 + 7) / 8 * 8)}, memory.options());
  if (used > 0) larger.narrow(0, 0, size_of(used)).copy_(memory.narrow(0, 0, size_of(used)));
  memory = larger;
}

std::size_t numbers_bytes(const Slot& slot) {
  const auto count = static_cast<std::size_t>(c10::multiply_integers(slot.shape));
  return (count * (slot.is_double ? sizeof(double) : sizeof(float)) + 7) / 8 * 8;
}

}  // namespace

std::size_t Slot::bytes_of(std::size_t rank) const {
  const std::size_t bytes =
      packing != nullptr ? packing->part_bytes(rank) : (rank == 0 ? leader_bytes : 0);
  if (bytes == 0) return 0;
  return kMarkBytes + (bytes + 7) / 8 * 8;
}

ForwardBuffer::ForwardBuffer(const comm::ProcessGroup& group, DeviceRuntime* runtime)
    : group_(group),
      runtime_(runtime),
      own_rank_(static_cast<std::size_t>(group.rank())),
      rank_bytes_(static_cast<std::size_t>(group.size())),
      own_(no_bytes(runtime)),
      all_(no_bytes(runtime)) {}

void ForwardBuffer::clear() {
  slots_.clear();
  marks_.clear();
  std::ranges::fill(rank_bytes_, 0);
}

std::size_t ForwardBuffer::add(Slot slot) {
  slot.offset = rank_bytes_;
  for (std::size_t rank = 0; rank < rank_bytes_.size(); ++rank)
    rank_bytes_[rank] += slot.bytes_of(rank);
  grow(own_, rank_bytes_[own_rank_], slot.offset[own_rank_]);
  if (runtime_ != nullptr && own_rank_ == 0 && slot.packing != nullptr)
    slot.device_join = slot.packing->device_join(own_.device());
  slots_.push_back(std::move(slot));
  marks_.emplace_back();
  return slots_.size() - 1;
}

at::Tensor ForwardBuffer::own_bytes(const Slot& slot) const {
  return own_.narrow(0, size_of(slot.offset[own_rank_] + kMarkBytes),
                     size_of(slot.bytes_of(own_rank_) - kMarkBytes));
}

void ForwardBuffer::write_part(std::size_t index, at::Device source,
                               const std::function<void(std::byte* part)>& write) {
  const Slot& slot = slots_[index];
  if (slot.bytes_of(own_rank_) == 0) return;
  const at::Device own = own_.device();
  if (source == own) return write(data_of(own_) + slot.offset[own_rank_] + kMarkBytes);
  if (!source.is_cpu())
    throw std::runtime_error("the tensor is on " + source.str() + ", the tracer on " + own.str());
  const at::Tensor part = own_bytes(slot);
  const at::Tensor copied = runtime_->host_memory(part.numel());
  write(data_of(copied));
  part.copy_(copied, /*non_blocking=*/true);
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
  rank_begin_.assign(rank_bytes_.size(), 0);
  std::exclusive_scan(rank_bytes_.begin(), rank_bytes_.end(), rank_begin_.begin(), std::size_t{0});
  if (runtime_ == nullptr) {
    write_marks();
    return gather();
  }
  done_ = runtime_->run_aside([this] {
    write_marks();
    gather();
    gather_.wait();  // the side stream waits, not the host
    copy_to_host();
  });
}

// The part of a failed slot has the reason in the place of its numbers.
void ForwardBuffer::write_marks() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.bytes_of(own_rank_) == 0) continue;
    if (runtime_ == nullptr)
      data_of(own_)[slot.offset[own_rank_]] = static_cast<std::byte>(marks_[i].outcome);
    if (marks_[i].outcome != Outcome::kFailed) continue;
    const at::Tensor part = own_bytes(slot);
    const std::string why = marks_[i].why.substr(0, static_cast<std::size_t>(part.numel()) - 1);
    const at::Tensor text = comm::host_bytes(std::as_bytes(std::span(why.c_str(), why.size() + 1)));
    part.narrow(0, 0, text.numel()).copy_(text);
  }
  if (runtime_ != nullptr) copy_marks();
}

// All marks in one copy.
void ForwardBuffer::copy_marks() {
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].bytes_of(own_rank_) == 0) continue;
    numbers.push_back(size_of(slots_[i].offset[own_rank_] / kMarkBytes));
    numbers.push_back(static_cast<std::int64_t>(marks_[i].outcome));
  }
  if (numbers.empty()) return;
  const at::Tensor host = runtime_->host_memory(size_of(numbers.size() * sizeof numbers[0]));
  std::memcpy(data_of(host), numbers.data(), host.nbytes());
  const at::Tensor places =
      host.to(own_.device(), /*non_blocking=*/true).view(at::kLong).view({-1, 2});
  own_.narrow(0, 0, size_of(rank_bytes_[own_rank_]))
      .view(at::kLong)
      .index_copy_(0, places.select(1, 0), places.select(1, 1));
}

void ForwardBuffer::gather() {
  const std::size_t total = rank_begin_.back() + rank_bytes_.back();
  if (total == rank_bytes_[0]) return;
  const bool is_root = own_rank_ == 0;
  if (is_root) grow(all_, total, 0);
  gather_ = group_.gather_bytes(own_.narrow(0, 0, size_of(rank_bytes_[own_rank_])), rank_bytes_,
                                all_.narrow(0, 0, is_root ? size_of(total) : 0), 0);
}

// On rank 0: the bytes of all ranks, or its own if no other rank has some.
at::Tensor ForwardBuffer::gathered() const {
  const std::size_t total = rank_begin_.back() + rank_bytes_.back();
  return (total == rank_bytes_[0] ? own_ : all_).narrow(0, 0, size_of(total));
}

std::size_t ForwardBuffer::gathered_offset(const Slot& slot, std::size_t rank) const {
  return rank_begin_[rank] + slot.offset[rank];
}

// The gathered bytes that the host joins, in their order; the host's copy begins with them.
std::vector<ForwardBuffer::Range> ForwardBuffer::place_parts() {
  std::vector<Range> ranges;
  std::size_t used = 0;
  for (std::size_t rank = 0; rank < rank_bytes_.size(); ++rank) {
    for (Slot& slot : slots_) {
      slot.host_offset.resize(rank_bytes_.size());
      const std::size_t bytes = slot.bytes_of(rank), begin = gathered_offset(slot, rank);
      if (bytes == 0 || slot.device_join) continue;
      slot.host_offset[rank] = used;
      used += bytes;
      if (ranges.empty() || ranges.back().end != begin) ranges.push_back({begin, begin});
      ranges.back().end += bytes;
    }
  }
  return ranges;
}

// The marks, then the numbers, of all slots that the device joins. `host_offset`: in the host's
// copy.
at::Tensor ForwardBuffer::join_on_device(std::size_t host_offset) {
  const at::Tensor source = gathered();
  std::vector<std::int64_t> marks;
  for (Slot& slot : slots_) {
    for (std::size_t rank = 0; rank < rank_bytes_.size(); ++rank) {
      if (!slot.device_join || slot.bytes_of(rank) == 0) continue;
      slot.host_offset[rank] = host_offset + marks.size() * kMarkBytes;
      marks.push_back(size_of(gathered_offset(slot, rank) / kMarkBytes));
    }
  }
  std::size_t bytes = marks.size() * kMarkBytes;
  for (Slot& slot : slots_) {
    if (!slot.device_join) continue;
    slot.joined_offset = host_offset + bytes;
    bytes += numbers_bytes(slot);
  }
  at::Tensor joined = at::empty({size_of(bytes)}, source.options());
  if (marks.empty()) return joined;
  const at::Tensor host = runtime_->host_memory(size_of(marks.size() * kMarkBytes));
  std::memcpy(data_of(host), marks.data(), host.nbytes());
  at::Tensor own_marks = joined.narrow(0, 0, host.numel()).view(at::kLong);
  at::index_select_out(own_marks, source.view(at::kLong), 0,
                       host.to(source.device(), /*non_blocking=*/true).view(at::kLong));
  for (const Slot& slot : slots_) {
    if (!slot.device_join) continue;
    std::vector<const std::byte*> parts(rank_bytes_.size(), nullptr);
    for (std::size_t rank = 0; rank < parts.size(); ++rank)
      if (slot.bytes_of(rank) > 0)
        parts[rank] = data_of(source) + gathered_offset(slot, rank) + kMarkBytes;
    slot.device_join(parts, data_of(joined) + slot.joined_offset - host_offset);
  }
  return joined;
}

void ForwardBuffer::copy_to_host() {
  if (own_rank_ != 0) return;
  const std::vector<Range> ranges = place_parts();
  std::size_t used = 0;
  for (const Range& range : ranges) used += range.end - range.begin;
  const at::Tensor joined = join_on_device(used);
  const std::size_t bytes = used + joined.nbytes();
  if (!host_.defined() || host_.numel() < size_of(bytes))
    host_ = runtime_->host_memory(size_of(bytes * 5 / 4));
  host_.narrow(0, size_of(used), joined.numel()).copy_(joined, /*non_blocking=*/true);
  used = 0;
  for (const Range& range : ranges) {
    const std::int64_t count = size_of(range.end - range.begin);
    host_.narrow(0, size_of(used), count)
        .copy_(gathered().narrow(0, size_of(range.begin), count), /*non_blocking=*/true);
    used += range.end - range.begin;
  }
  copy_tokens();
}

// A list of tokens is made on the host.
void ForwardBuffer::copy_tokens() {
  for (Slot& slot : slots_) {
    if (!slot.tokens.defined() || slot.tokens.is_cpu()) continue;
    const at::Tensor copied = runtime_->host_memory(size_of(slot.tokens.nbytes()));
    const at::Tensor tokens = copied.view(at::kLong).view(slot.tokens.sizes());
    slot.on_device = std::exchange(slot.tokens, tokens);
    tokens.copy_(slot.on_device, /*non_blocking=*/true);
  }
}

void ForwardBuffer::finish_gather() {
  is_pending_ = false;
  gather_.wait();
  if (done_ != nullptr) done_->wait();
  done_ = nullptr;
}

const std::byte* ForwardBuffer::marked_part(const Slot& slot, std::size_t rank) const {
  if (runtime_ != nullptr) return data_of(host_) + slot.host_offset[rank];
  const std::byte* begin = rank == 0 ? data_of(own_) : data_of(all_) + rank_begin_[rank];
  return begin + slot.offset[rank];
}

std::vector<const std::byte*> ForwardBuffer::parts_of(const Slot& slot) const {
  if (slot.device_join) return {};
  std::vector<const std::byte*> parts(rank_bytes_.size(), nullptr);
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    if (slot.bytes_of(rank) > 0) parts[rank] = marked_part(slot, rank) + kMarkBytes;
  return parts;
}

const std::byte* ForwardBuffer::joined(const Slot& slot) const {
  return slot.device_join ? data_of(host_) + slot.joined_offset : nullptr;
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
    const std::size_t bytes = slot.bytes_of(rank) - kMarkBytes;
    // The parts of what a device joins are still there.
    const at::Tensor copied =
        slot.device_join
            ? gathered()
                  .narrow(0, size_of(gathered_offset(slot, rank) + kMarkBytes), size_of(bytes))
                  .cpu()
            : at::Tensor();
    const std::byte* part =
        copied.defined() ? data_of(copied) : marked_part(slot, rank) + kMarkBytes;
    const auto* text = reinterpret_cast<const char*>(part);
    const std::string why(text, strnlen(text, bytes));
    return "tensor rank " + std::to_string(rank) +
           (why.empty() ? " could not capture it" : ": " + why);
  }
  return "";
}

}  // namespace tt::trace
