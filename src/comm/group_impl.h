#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "src/comm/sequence.h"
#include "tensor_tracer/comm/process_group.h"

namespace tt::comm::detail {

/// A pending operation of a backend.
class WorkImpl {
 public:
  virtual ~WorkImpl() = default;
  /// Makes progress; true once done, and ever after. Never blocks.
  virtual bool test() = 0;
};

/// What a reduction works on.
struct Elements {
  std::int64_t count = 0;
  at::ScalarType dtype = at::ScalarType::Float;
  std::size_t bytes() const { return static_cast<std::size_t>(count) * c10::elementSize(dtype); }
};

/// The primitive operations of a backend on plain memory. ProcessGroup has checked tensors, sizes
/// and ranks before; counts and bytes are above 0 except in send, receive and the byte operations.
/// Owner: the caller owns all memory. Thread: one thread per rank.
class GroupImpl {
 public:
  virtual ~GroupImpl() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::shared_ptr<GroupImpl> split(int color, int key) = 0;

  virtual void all_reduce(void* data, Elements elements, ReduceOp op) = 0;
  /// `input` may be output + rank() * bytes; otherwise they do not overlap.
  virtual void all_gather(const void* input, void* output, std::size_t bytes) = 0;
  virtual void gather(const void* input, void* output, std::size_t bytes, int root) = 0;
  /// `elements` describes the output; the two do not overlap.
  virtual void reduce_scatter(const void* input, void* output, Elements elements, ReduceOp op) = 0;
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  virtual void send(const void* data, std::size_t bytes, int destination, int tag) = 0;
  virtual void receive(void* data, std::size_t bytes, int source, int tag) = 0;
  virtual void barrier() = 0;
  /// Null: already done.
  virtual std::unique_ptr<WorkImpl> gather_bytes(std::span<const std::byte> input,
                                                 std::span<const std::size_t> counts,
                                                 std::span<std::byte> output, int root) = 0;
  virtual std::unique_ptr<WorkImpl> broadcast_bytes(std::span<std::byte> bytes, int root) = 0;

  Sequence& sequence() { return sequence_; }

 private:
  Sequence sequence_;
};

}  // namespace tt::comm::detail
