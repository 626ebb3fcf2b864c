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

/// State that all ranks of one run_local share. Thread: any.
class LocalJob {
 public:
  /// Keeps the first failure and wakes all waiting ranks.
  void fail(std::exception_ptr failure);
  /// Null: no rank has failed.
  std::exception_ptr failure();

 private:
  friend class LocalTeam;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr failure_;  // guarded by mutex_
};

/// State that the ranks of one local group share. After a rank of the job has failed, every wait
/// throws CommError. Thread: one per rank.
class LocalTeam {
 public:
  LocalTeam(std::shared_ptr<LocalJob> job, int size);

  int size() const { return static_cast<int>(posted_.size()); }
  const std::shared_ptr<LocalJob>& job() const { return job_; }

  /// Shows `data` to the other ranks and waits until all ranks have shown theirs. The number of
  /// bytes is the same on all ranks. The pointers stay valid until the next meet().
  const std::vector<const void*>& post(int rank, const void* data, std::size_t bytes);
  /// Waits for all ranks.
  void meet(int rank);

  /// Address of messages between two ranks. Messages of one channel stay in order; collectives and
  /// tags use different channels.
  struct Address {
    int source;
    int destination;
    std::int64_t channel;
    auto operator<=>(const Address&) const = default;
  };
  void deliver(const Address& address, const void* data, std::size_t bytes);
  /// False: no message yet.
  bool try_collect(const Address& address, void* data, std::size_t bytes);
  void collect(const Address& address, void* data, std::size_t bytes);

 private:
  bool take(const Address& address, void* data, std::size_t bytes);
  void require_no_failure(int rank) const;

  const std::shared_ptr<LocalJob> job_;
  // Each rank writes its element before meet(); all ranks read after meet().
  std::vector<const void*> posted_;
  std::vector<std::size_t> posted_bytes_;
  // Guarded by job_->mutex_.
  int arrived_ = 0;
  std::uint64_t generation_ = 0;
  std::map<Address, std::deque<std::vector<std::byte>>> mail_;
};

}  // namespace tt::comm::detail
