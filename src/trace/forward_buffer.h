#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/trace/layout.h"

namespace tt::trace {

/// What one capture takes up in the packed buffers of all ranks.
struct Slot {
  std::size_t entry = 0;
  int layer = 0;
  std::int64_t lines = 0;  // batch rows × tokens
  std::vector<std::int64_t> shape;
  const ColumnLayout* columns = nullptr;  // null: integers of the leader alone
  std::size_t number_bytes = 4;           // 4: float or int32, 8: double
  std::vector<std::size_t> offset;        // per rank, into that rank's buffer

  std::size_t bytes_of(std::size_t rank) const;
};

/// The packed captures of one forward pass: every rank's own buffer and, on rank 0, those of all.
/// Its shape follows from the plan and the model alone, so ranks need not exchange sizes; a capture
/// that fails leaves its slot marked. Memory is kept between forwards.
/// Thread: the thread that runs the step.
class ForwardBuffer {
 public:
  explicit ForwardBuffer(const comm::ProcessGroup& group);

  void clear();
  /// Reserves space on every rank and returns the slot; its part is marked as failed until
  /// `mark_written`.
  Slot& add(Slot slot);
  /// This rank's numbers of the slot; null when it has none.
  std::byte* own_numbers(const Slot& slot);
  void mark_written(const Slot& slot);

  /// Posts the one gather; nothing is sent when only rank 0 has numbers.
  void start_gather();
  void finish_gather();

  const std::vector<Slot>& slots() const { return slots_; }
  /// Rank 0, after finish_gather: the numbers of `rank`, REQUIRES: complete(slot).
  const std::byte* numbers_of(const Slot& slot, std::size_t rank) const;
  bool complete(const Slot& slot) const;

 private:
  comm::ProcessGroup group_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> rank_bytes_;
  std::vector<std::byte> own_;
  std::vector<std::byte> all_;
  std::vector<std::size_t> rank_begin_;
  comm::Work gather_;
};

}  // namespace tt::trace
