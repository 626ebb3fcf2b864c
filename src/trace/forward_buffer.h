#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/trace/compressor.h"
#include "tensor_tracer/trace/device_runtime.h"

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
  at::Tensor on_device = {};                         // what is being copied into `tokens`
  bool is_double = false;                            // numbers are double; false: float
  std::size_t leader_bytes = 0;                      // without a packing: bytes on the leader
  std::vector<std::size_t> offset = {};              // per rank, into that rank's buffer
  DeviceJoin device_join = {};                       // on rank 0; null: the host joins the parts
  std::vector<std::size_t> host_offset = {};         // per rank, of its mark in the host's copy
  std::size_t joined_offset = 0;                     // of what the device joined

  /// Bytes of the rank's part with its mark, which states the outcome; 0: the rank has no part.
  std::size_t bytes_of(std::size_t rank) const;
};

/// The packed captures of one direction of a pass: each rank's buffer and, on rank 0, the buffers
/// of all ranks. Every rank computes the layout of all ranks from the plan and the model. Before
/// the gather the ranks compare `layout_hash`: if a rank sent more bytes than rank 0 expects, MPI
/// would write past the end of rank 0's buffer. A failed capture leaves its slot marked as failed.
/// Memory is kept between passes. Thread: the thread that runs the step.
///
/// On a device the parts stay there until rank 0 has gathered them; then rank 0 joins them there if
/// their packing can (Packing::device_join), and copies the numbers to the host, else the parts.
/// Gather, join and copy run aside (DeviceRuntime).
class ForwardBuffer {
 public:
  /// `runtime` outlives the buffer; null: the buffer is in host memory.
  ForwardBuffer(const comm::ProcessGroup& group, DeviceRuntime* runtime);

  void clear();
  enum class Outcome : std::uint8_t {
    kWritten,
    kTookTooLong,
    kUnreached,  // of a gradient: the backward did not reach the place
    kFailed
  };
  /// Reserves space on every rank and returns the slot's index. The slot is marked as failed until
  /// mark() is called.
  std::size_t add(Slot slot);
  std::size_t own_rank() const { return own_rank_; }
  /// Writes this rank's part of the slot by `write(part)`, which is not called if the rank has no
  /// part. `part` is on the device of `source`: the buffer's, or the CPU, from where it is copied.
  /// Throws std::runtime_error for another device.
  void write_part(std::size_t index, at::Device source,
                  const std::function<void(std::byte* part)>& write);
  void mark(std::size_t index, Outcome outcome) { marks_[index].outcome = outcome; }
  /// Marks the slot as failed. Rank 0 gets the reason, cut to the bytes of the part.
  void mark_failed(std::size_t index, std::string why) {
    marks_[index] = {Outcome::kFailed, std::move(why)};
  }

  /// Hash of the slots and of the bytes of every rank.
  std::uint64_t layout_hash() const;
  /// Posts the gather; nothing is sent if only rank 0 has data. REQUIRES: layout_hash() is the same
  /// on all ranks.
  void start_gather();
  /// True if finish_gather() does not wait for a device. REQUIRES: is_pending().
  bool is_ready() const { return done_ == nullptr || done_->is_done(); }
  /// Completes the gather. REQUIRES: is_pending().
  void finish_gather();
  /// True between start_gather() and finish_gather().
  bool is_pending() const { return is_pending_; }

  const std::vector<Slot>& slots() const { return slots_; }
  /// Rank 0, after finish_gather: the parts of all ranks; empty if joined(slot). REQUIRES:
  /// outcome(slot) is neither kUnreached nor kFailed.
  std::vector<const std::byte*> parts_of(const Slot& slot) const;
  /// Rank 0, after finish_gather: the numbers that the device joined; null: the host joins.
  /// REQUIRES as parts_of.
  const std::byte* joined(const Slot& slot) const;
  /// Rank 0, after finish_gather: the worst outcome of all ranks.
  Outcome outcome(const Slot& slot) const;
  /// Rank 0, after finish_gather: "tensor rank 1: reason", of the first rank whose part is marked
  /// as failed.
  std::string failure(const Slot& slot) const;

 private:
  struct Mark {
    Outcome outcome = Outcome::kFailed;
    std::string why;
  };

  struct Range {
    std::size_t begin, end;
  };

  const std::byte* marked_part(const Slot& slot, std::size_t rank) const;
  std::size_t gathered_offset(const Slot& slot, std::size_t rank) const;
  at::Tensor gathered() const;
  Outcome outcome_of(const Slot& slot, std::size_t rank) const;
  at::Tensor own_bytes(const Slot& slot) const;  // without the mark
  void write_marks();
  void copy_marks();
  void gather();
  std::vector<Range> place_parts();
  at::Tensor join_on_device(std::size_t host_offset);
  void copy_to_host();
  void copy_tokens();

  comm::ProcessGroup group_;
  DeviceRuntime* runtime_;
  const std::size_t own_rank_;
  std::vector<Slot> slots_;
  std::vector<Mark> marks_;  // by slot
  std::vector<std::size_t> rank_bytes_;
  at::Tensor own_;  // uint8, on the buffer's device
  at::Tensor all_;  // the same, of all ranks
  // Rank 0 with a device: the marked parts that the host joins; then the marks and the numbers of
  // what the device joins.
  at::Tensor host_;
  std::vector<std::size_t> rank_begin_;
  comm::Work gather_;
  std::unique_ptr<DeviceEvent> done_;  // of a device: gather, join and copy
  bool is_pending_ = false;
};

}  // namespace tt::trace
