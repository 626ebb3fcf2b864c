#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace tt::comm::detail {

/// What all ranks of one run_local share. Thread: any.
class LocalJob {
 public:
  /// Keeps the first failure and wakes every rank that waits.
  void fail(std::exception_ptr failure);
  /// Null: no rank has failed.
  std::exception_ptr failure();

 private:
  friend class LocalTeam;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr failure_;  // guarded by mutex_
};

/// What the ranks of one local group share. Every wait throws CommError once a rank of the job has
/// failed. Thread: one per rank.
class LocalTeam {
 public:
  LocalTeam(std::shared_ptr<LocalJob> job, int size);

  int size() const { return static_cast<int>(posted_.size()); }
  const std::shared_ptr<LocalJob>& job() const { return job_; }

  /// Shows `data` to the other ranks and waits until all have shown theirs, all of as many bytes.
  /// The pointers stay valid until the next meet().
  const std::vector<const void*>& post(int rank, const void* data, std::size_t bytes);
  /// Waits for all ranks.
  void meet(int rank);

  /// Mail between two ranks, in order for each channel (collectives and tags use different ones).
  struct Address {
    int source;
    int destination;
    std::int64_t channel;
    auto operator<=>(const Address&) const = default;
  };
  void deliver(const Address& address, const void* data, std::size_t bytes);
  /// False: nothing there yet.
  bool try_collect(const Address& address, void* data, std::size_t bytes);
  void collect(const Address& address, void* data, std::size_t bytes);

 private:
  bool take(const Address& address, void* data, std::size_t bytes);
  void require_no_failure(int rank) const;

  const std::shared_ptr<LocalJob> job_;
  // Written by its rank before meet(), read by all after it.
  std::vector<const void*> posted_;
  std::vector<std::size_t> posted_bytes_;
  // Guarded by job_->mutex_.
  int arrived_ = 0;
  std::uint64_t generation_ = 0;
  std::map<Address, std::deque<std::vector<std::byte>>> mail_;
};

}  // namespace tt::comm::detail
