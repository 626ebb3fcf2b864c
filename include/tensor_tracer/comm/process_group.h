#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>

namespace tt::comm {

/// A failure of the communication layer: the operation, the rank and the library's words.
class CommError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class ReduceOp { kSum, kMax };

namespace detail {
class GroupImpl;
class WorkImpl;
}  // namespace detail

/// Host memory as a uint8 CPU tensor of one dim, for bytes that are no tensor: a control message, a
/// text. Owner: the caller; the memory must live until the operation is done, and be writable where
/// the operation writes.
at::Tensor host_bytes(std::span<const std::byte> bytes);

/// A pending asynchronous operation. It keeps its tensors.
/// Thread: the thread that started it.
class Work {
 public:
  Work();  // already done
  explicit Work(std::unique_ptr<detail::WorkImpl> impl);
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();  // REQUIRES: done, or the program is ending by an exception
  /// Makes progress; true once done. Never blocks.
  bool test();
  /// Polls until done; yields first, then sleeps with growing pauses (at most 1 ms), so that a long
  /// wait does not take a core.
  void wait();

 private:
  std::unique_ptr<detail::WorkImpl> impl_;
};

/// A small value handle for a group of ranks that call the same operations in the same order.
/// Every operation takes tensors, on a device that the group's backend carries; memory that is no
/// tensor goes in as host_bytes(), on the CPU. Tensors are dense; those that are written must be
/// contiguous, and autograd sees the write (their version counts up). All dtypes of PyTorch's real
/// numbers are carried; reductions take f64, f32, bf16, f16, i64, i32 (bf16 and f16 are summed in
/// f32, in rank order, and rounded once, so every rank has the same bits). On the same group the
/// result of a reduction is the same bit for bit at every call. A group of size 1 carries every
/// device, touches nothing and copies only where input and output differ. Errors: comm::CommError
/// (the machine), base::CheckError (a size, dtype or rank that does not fit, tensors that overlap,
/// a device that is not carried: it names the device and the backend). Thread: one thread per rank.
class ProcessGroup {
 public:
  /// The group of one rank.
  ProcessGroup();
  explicit ProcessGroup(std::shared_ptr<detail::GroupImpl> impl);

  int rank() const;
  int size() const;
  /// "local" or "mpi".
  std::string_view backend() const;
  /// True: tensors of this device are carried.
  bool supports(at::Device device) const;

  /// Collective: ranks with the same color form a new group, ordered by key, then by rank.
  ProcessGroup split(int color, int key) const;

  /// In place.
  void all_reduce(at::Tensor& tensor, ReduceOp op = ReduceOp::kSum) const;
  /// output[r] = input of rank r; output has shape [size, input's shape] (or as many elements).
  /// The input may be output[rank()]; otherwise the two do not overlap.
  void all_gather(const at::Tensor& input, at::Tensor& output) const;
  /// As all_gather, on `root` only; output is ignored elsewhere.
  void gather(const at::Tensor& input, at::Tensor& output, int root) const;
  /// output = sum over ranks of their input[rank()]; input has shape [size, output's shape]. The
  /// output may lie inside the input, at the price of a copy.
  void reduce_scatter(const at::Tensor& input, at::Tensor& output,
                      ReduceOp op = ReduceOp::kSum) const;
  void broadcast(at::Tensor& tensor, int root) const;
  /// May wait until the other side receives; to and from another rank only.
  void send(const at::Tensor& tensor, int destination, int tag = 0) const;
  void receive(at::Tensor& tensor, int source, int tag = 0) const;
  void barrier() const;

  // Of bytes: uint8 tensors of one dim, contiguous. They need no dtype that all ranks share, and
  // their number may differ from rank to rank.

  /// Bytes of every rank, end to end in rank order, into `output` of `root` (ignored elsewhere),
  /// apart from `input`. counts[r] = bytes of rank r, the same on every rank. MPI: MPI_Igatherv.
  Work gather_bytes(const at::Tensor& input, std::span<const std::size_t> counts,
                    const at::Tensor& output, int root) const;
  /// The same, done on return and in as many gathers as it takes: no gather carries more than
  /// `most` bytes.
  void gather_all_bytes(const at::Tensor& input, std::span<const std::size_t> counts,
                        const at::Tensor& output, int root,
                        std::size_t most = std::size_t{1} << 30U) const;
  /// MPI: MPI_Ibcast.
  Work broadcast_bytes(const at::Tensor& bytes, int root) const;

  /// Collective, for debug builds: throws CheckError that names the ranks when they did not call
  /// the same collectives (operation, bytes, dtype) on this group and its copies so far. In a
  /// release build (NDEBUG) nothing is hashed and this does nothing.
  void verify_sequence() const;

 private:
  std::shared_ptr<detail::GroupImpl> impl_;
};

}  // namespace tt::comm
