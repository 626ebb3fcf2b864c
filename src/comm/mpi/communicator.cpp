#include "src/comm/mpi/communicator.h"

#include <string>

#include "tensor_tracer/comm/world.h"

namespace tt::comm::detail {

void check_mpi(int code, const char* operation, MPI_Comm comm) {
  if (code == MPI_SUCCESS) [[likely]]
    return;
  char words[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, words, &length);
  int rank = -1;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  throw CommError(std::string(operation) + " on rank " + std::to_string(rank) + " of " +
                  std::to_string(size) + ": " + std::string(words, length));
}

int mpi_rank(MPI_Comm comm) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank", comm);
  return rank;
}

int mpi_size(MPI_Comm comm) {
  int size = 0;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size", comm);
  return size;
}

bool mpi_is_active() {
  int initialised = 0;
  int finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  return initialised != 0 && finalised == 0;
}

Communicator::~Communicator() {
  if (comm_ != MPI_COMM_NULL && mpi_is_active()) MPI_Comm_free(&comm_);
}

}  // namespace tt::comm::detail
