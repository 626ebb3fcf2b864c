#include <algorithm>
#include <cstring>
#include <vector>

#include "src/comm/mpi/communicator.h"
#include "src/comm/mpi/transfer.h"

namespace tt::comm::detail {
namespace {

// Elements per call of MPI_Allreduce; below INT_MAX.
constexpr std::int64_t kReduceChunk = std::int64_t{1} << 28;
// Size of each of the two scratch buffers of a reduction in rank order.
constexpr std::int64_t kScratchBytes = std::int64_t{8} << 20;

/// MPI's type if MPI may do the reduction, else MPI_DATATYPE_NULL.
MPI_Datatype native_type(at::ScalarType dtype, ReduceOp op) {
  using enum at::ScalarType;
  if (dtype == Long) return MPI_INT64_T;
  if (dtype == Int) return MPI_INT32_T;
  // Ranks apply MPI_MAX in different orders. With a NaN, or with zeros of both signs, the result
  // depends on the order.
  if (op == ReduceOp::kMax) return MPI_DATATYPE_NULL;
  if (dtype == Double) return MPI_DOUBLE;
  if (dtype == Float) return MPI_FLOAT;
  return MPI_DATATYPE_NULL;
}

MPI_Op native_op(ReduceOp op) { return op == ReduceOp::kSum ? MPI_SUM : MPI_MAX; }

/// Reductions in rank order: each rank gets one block of every rank and reduces it.
class InOrder {
 public:
  InOrder(MPI_Comm comm, at::ScalarType dtype, ReduceOp op)
      : comm_(comm), dtype_(dtype), op_(op), size_(mpi_size(comm)) {}

  int size() const { return size_; }
  std::size_t item() const { return c10::elementSize(dtype_); }
  /// Elements of one block that fit the scratch.
  std::int64_t largest_block() const {
    return std::max<std::int64_t>(1, kScratchBytes / static_cast<std::int64_t>(item()) / size_);
  }

  /// Memory for one block of `count` elements for each rank.
  std::byte* blocks(std::int64_t count) {
    outgoing_.resize(size_ * count * item());
    incoming_.resize(outgoing_.size());
    return outgoing_.data();
  }

  /// Reduces the blocks that all ranks have for this rank.
  void run(std::int64_t count, void* result) {
    const int bytes = static_cast<int>(count * item());
    check_mpi(
        MPI_Alltoall(outgoing_.data(), bytes, MPI_BYTE, incoming_.data(), bytes, MPI_BYTE, comm_),
        "MPI_Alltoall", comm_);
    std::vector<const void*> sources;
    for (int rank = 0; rank < size_; ++rank) sources.push_back(incoming_.data() + rank * bytes);
    reduce_in_order(sources, result, {count, dtype_}, op_);
  }

  /// The blocks of all ranks, concatenated, in the memory of blocks().
  const std::byte* collect(const void* block, std::int64_t count) {
    const int bytes = static_cast<int>(count * item());
    check_mpi(MPI_Allgather(block, bytes, MPI_BYTE, outgoing_.data(), bytes, MPI_BYTE, comm_),
              "MPI_Allgather", comm_);
    return outgoing_.data();
  }

 private:
  const MPI_Comm comm_;
  const at::ScalarType dtype_;
  const ReduceOp op_;
  const int size_;
  std::vector<std::byte> outgoing_;
  std::vector<std::byte> incoming_;
};

void all_reduce_in_order(MPI_Comm comm, std::byte* data, Elements elements, ReduceOp op) {
  InOrder in_order(comm, elements.dtype, op);
  const std::size_t item = in_order.item();
  const std::int64_t chunk = in_order.largest_block() * in_order.size();
  std::vector<std::byte> result;
  for (std::int64_t begin = 0; begin < elements.count; begin += chunk) {
    const std::int64_t length = std::min(chunk, elements.count - begin);
    const std::int64_t block = (length + in_order.size() - 1) / in_order.size();
    std::byte* blocks = in_order.blocks(block);
    std::memcpy(blocks, data + begin * item, length * item);
    result.resize(block * item);
    in_order.run(block, result.data());
    std::memcpy(data + begin * item, in_order.collect(result.data(), block), length * item);
  }
}

void reduce_scatter_in_order(MPI_Comm comm, const std::byte* input, std::byte* output,
                             Elements elements, ReduceOp op) {
  InOrder in_order(comm, elements.dtype, op);
  const std::size_t item = in_order.item();
  const std::int64_t chunk = in_order.largest_block();
  for (std::int64_t begin = 0; begin < elements.count; begin += chunk) {
    const std::int64_t length = std::min(chunk, elements.count - begin);
    std::byte* blocks = in_order.blocks(length);
    for (int rank = 0; rank < in_order.size(); ++rank) {
      std::memcpy(blocks + rank * length * item, input + (rank * elements.count + begin) * item,
                  length * item);
    }
    in_order.run(length, output + begin * item);
  }
}

}  // namespace

void mpi_all_reduce(MPI_Comm comm, void* data, Elements elements, ReduceOp op) {
  auto* bytes = static_cast<std::byte*>(data);
  const MPI_Datatype type = native_type(elements.dtype, op);
  if (type == MPI_DATATYPE_NULL) return all_reduce_in_order(comm, bytes, elements, op);
  for (std::int64_t begin = 0; begin < elements.count; begin += kReduceChunk) {
    const int length = static_cast<int>(std::min(kReduceChunk, elements.count - begin));
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, bytes + begin * c10::elementSize(elements.dtype), length,
                            type, native_op(op), comm),
              "MPI_Allreduce", comm);
  }
}

void mpi_reduce_scatter(MPI_Comm comm, const void* input, void* output, Elements elements,
                        ReduceOp op) {
  const MPI_Datatype type = native_type(elements.dtype, op);
  if (type == MPI_DATATYPE_NULL || elements.count > kReduceChunk) {
    return reduce_scatter_in_order(comm, static_cast<const std::byte*>(input),
                                   static_cast<std::byte*>(output), elements, op);
  }
  check_mpi(MPI_Reduce_scatter_block(input, output, static_cast<int>(elements.count), type,
                                     native_op(op), comm),
            "MPI_Reduce_scatter_block", comm);
}

}  // namespace tt::comm::detail
