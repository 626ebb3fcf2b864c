#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/trace/compressor.h"

namespace tt::trace {

/// The space of one capture in the packed buffers of all ranks.
struct Slot {
  std::size_t entry = 0;
  int layer = 0;
  std::vector<std::int64_t> shape = {};              // of the record
  std::shared_ptr<const LogicalShape> logical = {};  // null: integers, which only the leader sends
  std::shared_ptr<const Packing> packing = {};       // of `logical`
  std::vector<std::int64_t> targets = {};            // CaptureFacts::targets
  at::Tensor tokens = {};                            // of the pass, if the entry keeps tokens
  bool is_double = false;                            // numbers are double; false: float
  std::size_t leader_bytes = 0;                      // without a packing: bytes on the leader
  std::vector<std::size_t> offset = {};              // per rank, into that rank's buffer

  /// Bytes of the rank's part with its mark, which states the outcome; 0: the rank has no part.
  std::size_t bytes_of(std::size_t rank) const;
};

/// The packed captures of one direction of a pass: each rank's buffer and, on rank 0, the buffers
/// of all ranks. Every rank computes the layout of all ranks from the plan and the model. Before
/// the gather the ranks compare `layout_hash`: if a rank sent more bytes than rank 0 expects, MPI
/// would write past the end of rank 0's buffer. A failed capture leaves its slot marked as failed.
/// Memory is kept between passes. Thread: the thread that runs the step.
class ForwardBuffer {
 public:
  explicit ForwardBuffer(const comm::ProcessGroup& group);

  void clear();
  enum class Outcome : std::uint8_t {
    kWritten,
    kTookTooLong,
    kUnreached,  // of a gradient: the backward did not reach the place
    kFailed
  };
  /// Reserves space on every rank and returns the slot's index. The slot's part is marked as failed
  /// until mark() is called.
  std::size_t add(Slot slot);
  std::size_t own_rank() const { return own_rank_; }
  /// This rank's part of the slot; null if the rank has no part.
  std::byte* own_part(const Slot& slot);
  void mark(const Slot& slot, Outcome outcome);
  /// Marks the part as failed and stores the reason in it for rank 0. The text is cut to the part's
  /// bytes.
  void mark_failed(const Slot& slot, std::string_view why);

  /// Hash of the slots and of the bytes of every rank.
  std::uint64_t layout_hash() const;
  /// Posts the gather; nothing is sent if only rank 0 has data. REQUIRES: layout_hash() is the same
  /// on all ranks.
  void start_gather();
  /// Completes the gather. REQUIRES: is_pending().
  void finish_gather();
  /// True between start_gather() and finish_gather().
  bool is_pending() const { return is_pending_; }

  const std::vector<Slot>& slots() const { return slots_; }
  /// Rank 0, after finish_gather: the parts of all ranks. REQUIRES: outcome(slot) is neither
  /// kUnreached nor kFailed.
  std::vector<const std::byte*> parts_of(const Slot& slot) const;
  /// Rank 0, after finish_gather: the worst outcome of all ranks.
  Outcome outcome(const Slot& slot) const;
  /// Rank 0, after finish_gather: "tensor rank 1: reason", of the first rank whose part is marked
  /// as failed.
  std::string failure(const Slot& slot) const;

 private:
  const std::byte* marked_part(const Slot& slot, std::size_t rank) const;
  Outcome outcome_of(const Slot& slot, std::size_t rank) const;

  comm::ProcessGroup group_;
  const std::size_t own_rank_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> rank_bytes_;
  std::vector<std::byte> own_;
  std::vector<std::byte> all_;
  std::vector<std::size_t> rank_begin_;
  comm::Work gather_;
  bool is_pending_ = false;
};

}  // namespace tt::trace
