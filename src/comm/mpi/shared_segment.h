#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tt::comm::detail {

/// Memory that all ranks of a communicator of one node share: two slots of kSlotBytes for each rank
/// and a counter, with which the ranks meet. POSIX shared memory and not an MPI window, because
/// freeing a window is collective and would hang where a rank leaves by an exception; the name is
/// removed as soon as all ranks have it, so that nothing stays behind after a crash.
/// Thread: one per rank.
class SharedSegment {
 public:
  static constexpr std::size_t kSlotBytes = std::size_t{256} << 10;

  /// Null on every rank if the ranks are on several nodes or a node has no room. Collective.
  static std::unique_ptr<SharedSegment> create(MPI_Comm comm);

  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Goes on to the other slot of every rank.
  void turn() { side_ ^= 1; }
  /// The current slot of a rank. What was written before meet() may be read by all after it, until
  /// two turns later.
  std::byte* slot(int rank) const;

  /// Waits for all ranks: briefly in a loop, then by yielding and at last with short sleeps, since
  /// there may be more ranks than cores. Lets MPI make progress meanwhile, as a waiting MPI
  /// collective would: another rank may depend on it before it comes here.
  void meet();

 private:
  struct alignas(128) Counter {  // two lines: the processor fetches them in pairs
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
