#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "src/comm/sequence.h"
#include "tensor_tracer/comm/process_group.h"

namespace tt::comm::detail {

/// A pending operation of a backend.
class WorkImpl {
 public:
  virtual ~WorkImpl() = default;
  /// Makes progress; true once done and at every later call. Never blocks.
  virtual bool test() = 0;
};

/// The primitive operations of a backend. ProcessGroup checks tensors, sizes, devices, ranks and
/// overlap before each call. So all tensors are contiguous and on one device that the backend
/// supports. Tensors have elements, except in send, receive and the byte operations. Thread: one
/// thread per rank.
class GroupImpl {
 public:
  virtual ~GroupImpl() = default;
  virtual std::string_view backend() const = 0;
  virtual bool supports(at::Device device) const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::shared_ptr<GroupImpl> split(int color, int key) = 0;

  virtual void all_reduce(at::Tensor& tensor, ReduceOp op) = 0;
  /// `input` may be this rank's part of `output`; otherwise they do not overlap.
  virtual void all_gather(const at::Tensor& input, at::Tensor& output) = 0;
  /// Only `root` has an output; on other ranks `output` is ignored and may be undefined.
  virtual void gather(const at::Tensor& input, at::Tensor& output, int root) = 0;
  virtual void reduce_scatter(const at::Tensor& input, at::Tensor& output, ReduceOp op) = 0;
  virtual void broadcast(at::Tensor& tensor, int root) = 0;
  virtual void send(const at::Tensor& tensor, int destination, int tag) = 0;
  virtual void receive(at::Tensor& tensor, int source, int tag) = 0;
  virtual void barrier() = 0;
  /// `output` as in gather. Null: already done.
  virtual std::unique_ptr<WorkImpl> gather_bytes(const at::Tensor& input,
                                                 std::span<const std::size_t> counts,
                                                 const at::Tensor& output, int root) = 0;
  virtual std::unique_ptr<WorkImpl> broadcast_bytes(const at::Tensor& bytes, int root) = 0;

  Sequence& sequence() { return sequence_; }
  /// Null: operations are not recorded.
  CollectiveLog* log() const { return log_; }
  /// The group's index in the log.
  std::size_t log_index() const { return log_index_; }
  void record_into(CollectiveLog& log, std::size_t index) {
    log_ = &log;
    log_index_ = index;
  }
  /// The number of splits before, the same on all ranks.
  int count_split() { return splits_++; }

 private:
  Sequence sequence_;
  CollectiveLog* log_ = nullptr;
  std::size_t log_index_ = 0;
  int splits_ = 0;
};

/// Copies the elements of `input` into `output`, which has the same number of elements, unless both
/// are the same memory. Autograd does not see the write.
void copy_elements(const at::Tensor& input, const at::Tensor& output);

}  // namespace tt::comm::detail
