// Loaded before MPI: on rank TT_NAN_RANK, the result of sum number TT_NAN_CALL over float32 numbers becomes NaN
// in its first number, and of the TT_NAN_COUNT - 1 sums that follow. Without shared memory MPI does all sums.
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <sys/mman.h>

static long number(const char* name) {
  const char* const text = getenv(name);
  return text == NULL ? 0 : atol(text);
}

int shm_open(const char* name, int flags, mode_t mode) {
  (void)name, (void)flags, (void)mode;
  errno = ENOSYS;
  return -1;
}

int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  static long calls;
  const int failed = PMPI_Allreduce(send, receive, count, type, op, comm);
  if (type != MPI_FLOAT || op != MPI_SUM || count < 1000) return failed;
  const long call = ++calls - number("TT_NAN_CALL");
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == number("TT_NAN_RANK") && call >= 0 && call < number("TT_NAN_COUNT"))
    *(float*)receive = NAN;
  return failed;
}
