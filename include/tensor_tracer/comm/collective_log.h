#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace tt::comm {

class ProcessGroup;

/// A group that a CollectiveLog records.
struct RecordedGroup {
  std::string name = {};        // "tensor"
  std::string path = {};        // "world/tensor.0": the same on all ranks of the group
  std::vector<int> ranks = {};  // global ranks, in the order of the group
  std::uint64_t calls = 0;      // collectives that this rank has begun
};

/// One call of an operation by this rank.
struct CollectiveCall {
  std::uint64_t number = 0;    // among all calls of this rank, from 1
  std::uint64_t sequence = 0;  // among the collectives of its group, from 1; 0: send or receive
  std::size_t group = 0;       // index of CollectiveLog::groups()
  const char* operation = "";  // "all_reduce sum"
  std::uint64_t bytes = 0;
  int dtype = -1;             // an at::ScalarType; -1: bytes
  int peer = -1;              // the other rank of a send or receive, in the group; -1: none
  std::int64_t step = 0;      // of training; 0: before the first step
  std::int64_t begin_ns = 0;  // steady clock
  std::int64_t end_ns = 0;    // 0: not ended
};

/// The facts of a call that its caller knows.
struct CallFacts {
  const char* operation = "";  // lives as long as the program
  std::uint64_t bytes = 0;
  int dtype = -1;
  int peer = -1;
};

/// A call for which this rank waits.
struct PendingWait {
  CollectiveCall call;
  std::int64_t since_ns = 0;  // steady clock
};

/// The last operations of one rank, in memory, and the operation for which the rank waits now. A
/// call costs a few stores and two readings of the clock; it takes no lock. Lives longer than the
/// groups that record into it and their pending operations. Thread: as stated.
class CollectiveLog {
 public:
  static constexpr std::size_t kCalls = 1024;  // that are kept

  /// `rank`: the global rank.
  explicit CollectiveLog(int rank) : rank_(rank) {}
  CollectiveLog(const CollectiveLog&) = delete;
  CollectiveLog& operator=(const CollectiveLog&) = delete;

  // The following functions are called by the thread that runs the step.

  /// Returns the index of the new group.
  std::size_t add_group(RecordedGroup group);
  /// Returns the call's number. The rank also waits for it, until end() or end_wait().
  std::uint64_t begin(std::size_t group, const CallFacts& facts) noexcept;
  void end(std::uint64_t number) noexcept;
  void begin_wait(std::uint64_t number) noexcept;
  void end_wait() noexcept { waiting_.store(0, std::memory_order_release); }
  /// The next calls belong to this step.
  void begin_step(std::int64_t step) noexcept;
  /// Names the work that this rank does while others wait; "": none. `name` lives as long as the
  /// program.
  void set_work(const char* name) noexcept { work_.store(name, std::memory_order_release); }

  // Any thread may call the following functions.

  int rank() const { return rank_; }
  std::vector<RecordedGroup> groups() const;
  /// The last kCalls calls, oldest first.
  std::vector<CollectiveCall> calls() const;
  std::optional<PendingWait> wait() const;
  std::int64_t step() const { return step_.load(std::memory_order_acquire); }
  bool has_ended_a_step() const { return has_ended_a_step_.load(std::memory_order_acquire); }
  std::string work() const { return work_.load(std::memory_order_acquire); }

 private:
  struct Group {
    RecordedGroup facts;
    std::atomic<std::uint64_t> calls = 0;
  };
  // While a slot is written, its number is 0.
  struct Slot {
    std::atomic<std::uint64_t> number = 0, sequence = 0, group = 0, bytes = 0;
    std::atomic<const char*> operation = "";
    std::atomic<int> dtype = -1, peer = -1;
    std::atomic<std::int64_t> step = 0, begin_ns = 0, end_ns = 0;
  };
  std::optional<CollectiveCall> read(const Slot& slot) const;

  const int rank_;
  std::array<Slot, kCalls> slots_;
  std::uint64_t last_number_ = 0;
  std::atomic<std::uint64_t> waiting_ = 0;  // number of the call; 0: none
  std::atomic<std::int64_t> waiting_since_ns_ = 0;
  std::atomic<std::int64_t> step_ = 0;
  std::atomic<bool> has_ended_a_step_ = false;
  std::atomic<const char*> work_ = "";
  mutable std::mutex mutex_;  // of the number of groups
  std::deque<Group> groups_;
};

/// Names a work that this rank does alone and that may take long, such as a write to a slow disk,
/// while other ranks wait for it in a collective. Without a log of `group` it does nothing.
/// Thread: the thread that runs the step.
class SoloWork {
 public:
  /// `name` lives as long as the program.
  SoloWork(const ProcessGroup& group, const char* name);
  ~SoloWork();
  SoloWork(const SoloWork&) = delete;
  SoloWork& operator=(const SoloWork&) = delete;

 private:
  CollectiveLog* const log_;
};

/// The steady clock, in nanoseconds.
std::int64_t steady_ns() noexcept;

}  // namespace tt::comm
