#pragma once

#include <mpi.h>

namespace tt::comm::detail {

/// Throws CommError with the operation, the rank in `comm` and MPI's message unless `code` is
/// MPI_SUCCESS.
void check_mpi(int code, const char* operation, MPI_Comm comm);

/// This rank in `comm`, and the number of ranks of `comm`. Both throw CommError on failure.
int mpi_rank(MPI_Comm comm);
int mpi_size(MPI_Comm comm);

/// True between MPI_Init_thread and MPI_Finalize.
bool mpi_is_active();

/// Owns a communicator and frees it, except after MPI_Finalize.
class Communicator {
 public:
  /// `comm` may be MPI_COMM_NULL.
  explicit Communicator(MPI_Comm comm) : comm_(comm) {}
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();
  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_;
};

}  // namespace tt::comm::detail
