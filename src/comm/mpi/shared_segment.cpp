#include "src/comm/mpi/shared_segment.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

#include "src/comm/mpi/communicator.h"

namespace tt::comm::detail {
namespace {

constexpr int kSpins = 500;     // about 20 microseconds
constexpr int kYields = 10000;  // a few milliseconds if no other thread needs the core
constexpr int kYieldsPerProgress = 8;
constexpr std::chrono::microseconds kFirstPause{20};
constexpr std::chrono::microseconds kLongestPause{200};

using Name = std::array<char, 64>;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

Name random_name() {
  Name name{};
  std::random_device random;
  std::snprintf(name.data(), name.size(), "/tensor-tracer-%d-%08x%08x", getpid(), random(),
                random());
  return name;
}

bool same_node(MPI_Comm comm, int size) {
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
            "MPI_Comm_split_type", comm);
  const Communicator owner(node);
  return mpi_size(node) == size;
}

bool all_agree(MPI_Comm comm, bool own) {
  int agreed = own ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &agreed, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce", comm);
  return agreed == 1;
}

/// Opens the shared memory object; -1 on failure. The owner creates it and allocates its pages
/// here, so that a lack of memory is an error now and not a signal at the first write.
int open_object(const char* name, bool owner, std::size_t bytes) {
  const int descriptor =
      shm_open(name, owner ? O_RDWR | O_CREAT | O_EXCL : O_RDWR, S_IRUSR | S_IWUSR);
  if (descriptor < 0 || !owner) return descriptor;
  if (posix_fallocate(descriptor, 0, static_cast<off_t>(bytes)) == 0) return descriptor;
  close(descriptor);
  return -1;
}

}  // namespace

std::unique_ptr<SharedSegment> SharedSegment::create(MPI_Comm comm) {
  const int rank = mpi_rank(comm);
  const int size = mpi_size(comm);
  if (!all_agree(comm, same_node(comm, size))) return nullptr;

  std::unique_ptr<SharedSegment> segment(new SharedSegment(comm, rank, size));
  Name name = random_name();
  check_mpi(MPI_Bcast(name.data(), name.size(), MPI_CHAR, 0, comm), "MPI_Bcast", comm);
  const bool created = rank != 0 || segment->map(name.data(), true);
  bool usable = all_agree(comm, created);
  if (usable) usable = all_agree(comm, rank == 0 || segment->map(name.data(), false));
  if (rank == 0 && created) shm_unlink(name.data());
  return usable ? std::move(segment) : nullptr;
}

bool SharedSegment::map(const char* name, bool owner) {
  const int descriptor = open_object(name, owner, bytes());
  if (descriptor < 0) return false;
  void* memory = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (memory == MAP_FAILED) return false;
  memory_ = memory;
  return true;
}

SharedSegment::~SharedSegment() {
  if (memory_ != nullptr) munmap(memory_, bytes());
}

std::byte* SharedSegment::slot(int rank) const {
  return static_cast<std::byte*>(memory_) + size_ * sizeof(Counter) +
         (2 * rank + side_) * kSlotBytes;
}

void SharedSegment::meet() {
  counters()[rank_].meetings.store(++meetings_, std::memory_order_release);
  for (int rank = 0; rank < size_; ++rank)
    if (rank != rank_) wait_for(counters()[rank].meetings);
}

void SharedSegment::wait_for(const std::atomic<std::uint64_t>& counter) const {
  const auto arrived = [&] { return counter.load(std::memory_order_acquire) >= meetings_; };
  for (int i = 0; i < kSpins; ++i) {
    if (arrived()) return;
    relax();
  }
  const auto make_progress = [&] {
    int found = 0;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &found, MPI_STATUS_IGNORE),
              "MPI_Iprobe", comm_);
  };
  for (int i = 0; i < kYields; ++i) {
    if (arrived()) return;
    if (i % kYieldsPerProgress == 0) make_progress();
    sched_yield();
  }
  for (auto pause = kFirstPause; !arrived(); pause = std::min(2 * pause, kLongestPause)) {
    make_progress();
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace tt::comm::detail
