#pragma once

#include <mpi.h>

#include "src/comm/reduce.h"

// The operations of the MPI backend on blocks of any size. MPI counts are ints, so larger blocks
// are sent in chunks. All except send and receive are collective over `comm`.
namespace tt::comm::detail {

void mpi_all_gather(MPI_Comm comm, const void* input, void* output, std::size_t bytes);
void mpi_gather(MPI_Comm comm, const void* input, void* output, std::size_t bytes, int root);
void mpi_broadcast(MPI_Comm comm, void* data, std::size_t bytes, int root);
void mpi_send(MPI_Comm comm, const void* data, std::size_t bytes, int destination, int tag);
void mpi_receive(MPI_Comm comm, void* data, std::size_t bytes, int source, int tag);

/// MPI computes sums of f64, f32 and the integers, and maxima of integers. For the other reductions
/// (bf16, f16, and maxima, which may have NaNs) the ranks send bytes and reduce them in rank order.
void mpi_all_reduce(MPI_Comm comm, void* data, Elements elements, ReduceOp op);
void mpi_reduce_scatter(MPI_Comm comm, const void* input, void* output, Elements elements,
                        ReduceOp op);

}  // namespace tt::comm::detail
