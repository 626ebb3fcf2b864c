#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tt::comm::detail {

/// Memory that all ranks of a communicator on one node share. Each rank has two slots of
/// kSlotBytes, and a counter with which the ranks meet. It is POSIX shared memory and not an MPI
/// window, because freeing a window is collective and would hang if a rank ends by an exception.
/// The name is removed as soon as all ranks have mapped the memory, so that nothing remains after a
/// crash. Thread: one per rank.
class SharedSegment {
 public:
  static constexpr std::size_t kSlotBytes = std::size_t{256} << 10;

  /// Null on every rank if the ranks are on several nodes or the node has too little memory.
  /// Collective.
  static std::unique_ptr<SharedSegment> create(MPI_Comm comm);

  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Switches to the second slot of every rank, and back at the next call.
  void turn() { side_ ^= 1; }
  /// The current slot of a rank. All ranks may read after meet() the data that was written before
  /// meet(), until two turns later.
  std::byte* slot(int rank) const;

  /// Waits for all ranks: first in a short loop, then with yields and at last with short sleeps,
  /// because there may be more ranks than cores. While it waits, it lets MPI make progress, as a
  /// waiting MPI collective would: another rank may need this progress before it can call meet().
  void meet();

 private:
  struct alignas(128) Counter {  // two cache lines: the CPU fetches lines in pairs
    std::atomic<std::uint64_t> meetings;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  SharedSegment(MPI_Comm comm, int rank, int size) : comm_(comm), rank_(rank), size_(size) {}
  std::size_t bytes() const { return size_ * (sizeof(Counter) + 2 * kSlotBytes); }
  Counter* counters() const { return static_cast<Counter*>(memory_); }
  bool map(const char* name, bool owner);
  void wait_for(const std::atomic<std::uint64_t>& counter) const;

  const MPI_Comm comm_;
  const int rank_;
  const int size_;
  void* memory_ = nullptr;
  int side_ = 0;
  std::uint64_t meetings_ = 0;
};

}  // namespace tt::comm::detail
