#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tensor_tracer/comm/collective_log.h"

namespace tt::comm {

/// A failure of the communication layer: the operation, the rank and the library's message.
class CommError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class ReduceOp { kSum, kMax };

namespace detail {
class GroupImpl;
class WorkImpl;

/// A call in the log of its group; without a log it does nothing.
struct OpenCall {
  CollectiveLog* log = nullptr;
  std::uint64_t number = 0;
  void end() const {
    if (log != nullptr) log->end(number);
  }
};
}  // namespace detail

/// Wraps host memory as a uint8 CPU tensor of one dim, for bytes that are not a tensor, such as a
/// control message or a text. Owner: the caller; the memory must live until the operation is done,
/// and must be writable if the operation writes it.
at::Tensor host_bytes(std::span<const std::byte> bytes);

/// A pending asynchronous operation. It keeps its tensors alive. Thread: the thread that started
/// it.
class Work {
 public:
  Work();  // already done
  explicit Work(std::unique_ptr<detail::WorkImpl> impl, detail::OpenCall call = {});
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();  // REQUIRES: done, or an exception is ending the program
  /// Makes progress; true once done. Never blocks.
  bool test();
  /// Polls until done. Yields first, then sleeps with growing pauses (at most 1 ms), so that a long
  /// wait does not keep a core busy.
  void wait();

 private:
  std::unique_ptr<detail::WorkImpl> impl_;
  detail::OpenCall call_;
};

/// A small value handle for a group of ranks that call the same operations in the same order. Every
/// operation takes tensors on a device that the group's backend supports; memory that is not a
/// tensor is passed as host_bytes(), on the CPU. Tensors are dense. A tensor that an operation
/// writes must be contiguous, and autograd sees the write (its version counter increases). All real
/// dtypes of PyTorch are supported; reductions take f64, f32, bf16, f16, i64, i32 (bf16 and f16 are
/// summed in f32, in rank order, and rounded once, so every rank has the same bits). On the same
/// group, a reduction gives the same bits at every call. A group of size 1 supports every device,
/// communicates nothing and copies only if input and output differ. Errors: comm::CommError (the
/// machine), base::CheckError (a size, dtype or rank that does not fit, tensors that overlap, a
/// device that is not supported: the message names the device and the backend). On CUDA operations
/// are done in the order of the current stream, for which the host does not wait. Thread: one
/// thread per rank.
class ProcessGroup {
 public:
  /// The group of one rank.
  ProcessGroup();
  explicit ProcessGroup(std::shared_ptr<detail::GroupImpl> impl);

  int rank() const;
  int size() const;
  /// "local", "mpi", "gloo", or "gloo and nccl".
  std::string_view backend() const;
  /// True if the group supports tensors on this device.
  bool supports(at::Device device) const;

  /// Collective: ranks with the same color form a new group, ordered by key, then by rank. `name`:
  /// of the group, in errors and in the log.
  ProcessGroup split(int color, int key, const std::string& name = "part") const;

  /// From now on the operations of this group of all ranks, and of the groups split off from it,
  /// are recorded, except if they have one rank. REQUIRES: the ranks of this group are global.
  void record_into(CollectiveLog& log) const;
  /// Null: the operations are not recorded.
  CollectiveLog* log() const;

  /// Reduces `tensor` in place; every rank gets the result.
  void all_reduce(at::Tensor& tensor, ReduceOp op = ReduceOp::kSum) const;
  /// output[r] = input of rank r; output has shape [size, input's shape] (or the same number of
  /// elements). The input may be output[rank()]; otherwise input and output must not overlap.
  void all_gather(const at::Tensor& input, at::Tensor& output) const;
  /// As all_gather, but only `root` gets the output; other ranks ignore `output`.
  void gather(const at::Tensor& input, at::Tensor& output, int root) const;
  /// output = sum over ranks of their input[rank()]; input has shape [size, output's shape]. The
  /// output may lie inside the input; this costs a copy.
  void reduce_scatter(const at::Tensor& input, at::Tensor& output,
                      ReduceOp op = ReduceOp::kSum) const;
  void broadcast(at::Tensor& tensor, int root) const;
  /// May wait until the other side receives. The other side must be another rank.
  void send(const at::Tensor& tensor, int destination, int tag = 0) const;
  void receive(at::Tensor& tensor, int source, int tag = 0) const;
  void barrier() const;

  // Operations on bytes: contiguous uint8 tensors of one dim. The number of bytes may differ
  // between ranks, and ranks need no common dtype.

  /// Gathers the bytes of all ranks, concatenated in rank order, into `output` of `root`; other
  /// ranks ignore `output`. `output` must not overlap `input`. counts[r] = bytes of rank r, the
  /// same on every rank. MPI: MPI_Igatherv.
  Work gather_bytes(const at::Tensor& input, std::span<const std::size_t> counts,
                    const at::Tensor& output, int root) const;
  /// The same, but complete on return and split into several gathers: one gather sends at most
  /// `most` bytes.
  void gather_all_bytes(const at::Tensor& input, std::span<const std::size_t> counts,
                        const at::Tensor& output, int root,
                        std::size_t most = std::size_t{1} << 30U) const;
  /// MPI: MPI_Ibcast.
  Work broadcast_bytes(const at::Tensor& bytes, int root) const;

  /// Collective, for debug builds: if the ranks did not call the same collectives (operation,
  /// bytes, dtype) on this group and its copies so far, throws a CheckError that names the ranks.
  /// In a release build (NDEBUG) nothing is hashed and this does nothing.
  void verify_sequence() const;

 private:
  std::shared_ptr<detail::GroupImpl> impl_;
};

}  // namespace tt::comm
