#include "src/comm/mpi/transfer.h"

#include <algorithm>

#include "src/comm/mpi/communicator.h"
#include "tensor_tracer/base/check.h"

namespace tt::comm::detail {
namespace {

// Below INT_MAX, and a multiple of every element size.
constexpr std::size_t kChunkBytes = std::size_t{1} << 30;

/// An MPI type of `block` bytes, repeated every `stride` bytes: one block of each rank's part.
class StridedBlock {
 public:
  StridedBlock(MPI_Comm comm, std::size_t block, std::size_t stride) {
    MPI_Datatype packed = MPI_DATATYPE_NULL;
    check_mpi(MPI_Type_contiguous(static_cast<int>(block), MPI_BYTE, &packed),
              "MPI_Type_contiguous", comm);
    const int resized = MPI_Type_create_resized(packed, 0, static_cast<MPI_Aint>(stride), &type_);
    MPI_Type_free(&packed);
    check_mpi(resized, "MPI_Type_create_resized", comm);
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit", comm);
  }
  StridedBlock(const StridedBlock&) = delete;
  StridedBlock& operator=(const StridedBlock&) = delete;
  ~StridedBlock() { MPI_Type_free(&type_); }
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

/// Calls body(begin, length) for each chunk. If there are no bytes, calls it once with length 0.
template <typename Body>
void for_each_chunk(std::size_t bytes, const Body& body) {
  std::size_t begin = 0;
  do {
    const std::size_t length = std::min(kChunkBytes, bytes - begin);
    body(begin, static_cast<int>(length));
    begin += length;
  } while (begin < bytes);
}

const std::byte* at(const void* data, std::size_t offset) {
  return static_cast<const std::byte*>(data) + offset;
}
std::byte* at(void* data, std::size_t offset) { return static_cast<std::byte*>(data) + offset; }

}  // namespace

void mpi_all_gather(MPI_Comm comm, const void* input, void* output, std::size_t bytes) {
  const bool in_place = input == at(output, mpi_rank(comm) * bytes);
  for_each_chunk(bytes, [&](std::size_t begin, int length) {
    const StridedBlock block(comm, length, bytes);
    check_mpi(MPI_Allgather(in_place ? MPI_IN_PLACE : at(input, begin), length, MPI_BYTE,
                            at(output, begin), 1, block.get(), comm),
              "MPI_Allgather", comm);
  });
}

void mpi_gather(MPI_Comm comm, const void* input, void* output, std::size_t bytes, int root) {
  for_each_chunk(
      bytes,
      [&](std::size_t begin, int length) {
        const StridedBlock block(comm, length, bytes);
        // Only the root has an output.
        check_mpi(
            MPI_Gather(at(input, begin), length, MPI_BYTE,
                       output == nullptr ? nullptr : at(output, begin), 1, block.get(), root, comm),
            "MPI_Gather", comm);
      });
}

void mpi_broadcast(MPI_Comm comm, void* data, std::size_t bytes, int root) {
  for_each_chunk(
      bytes,
      [&](std::size_t begin, int length) {
        check_mpi(MPI_Bcast(at(data, begin), length, MPI_BYTE, root, comm), "MPI_Bcast", comm);
      });
}

void mpi_send(MPI_Comm comm, const void* data, std::size_t bytes, int destination, int tag) {
  for_each_chunk(
      bytes,
      [&](std::size_t begin, int length) {
        check_mpi(MPI_Send(at(data, begin), length, MPI_BYTE, destination, tag, comm), "MPI_Send",
                  comm);
      });
}

void mpi_receive(MPI_Comm comm, void* data, std::size_t bytes, int source, int tag) {
  for_each_chunk(
      bytes,
      [&](std::size_t begin, int length) {
        MPI_Status status;
        check_mpi(MPI_Recv(at(data, begin), length, MPI_BYTE, source, tag, comm, &status),
                  "MPI_Recv", comm);
        int received = 0;
        check_mpi(MPI_Get_count(&status, MPI_BYTE, &received), "MPI_Get_count", comm);
        TT_CHECK_EQ(received, length);
      });
}

}  // namespace tt::comm::detail
