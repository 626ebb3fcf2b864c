#include "src/comm/local/team.h"

#include <cstring>
#include <string>

#include "tensor_tracer/base/check.h"
#include "tensor_tracer/comm/process_group.h"

namespace tt::comm::detail {

void LocalJob::fail(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
  changed_.notify_all();
}

std::exception_ptr LocalJob::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

LocalTeam::LocalTeam(std::shared_ptr<LocalJob> job, int size)
    : job_(std::move(job)), posted_(size), posted_bytes_(size) {}

void LocalTeam::require_no_failure(int rank) const {
  if (job_->failure_) {
    throw CommError("rank " + std::to_string(rank) + " of " + std::to_string(size()) +
                    " gave up waiting: another rank of this process has failed");
  }
}

const std::vector<const void*>& LocalTeam::post(int rank, const void* data, std::size_t bytes) {
  posted_[rank] = data;
  posted_bytes_[rank] = bytes;
  meet(rank);
  for (const std::size_t other : posted_bytes_) TT_CHECK_EQ(other, bytes);
  return posted_;
}

void LocalTeam::meet(int rank) {
  std::unique_lock lock(job_->mutex_);
  require_no_failure(rank);
  if (++arrived_ == size()) {
    arrived_ = 0;
    ++generation_;
    job_->changed_.notify_all();
    return;
  }
  const std::uint64_t before = generation_;
  job_->changed_.wait(lock, [&] { return generation_ != before || job_->failure_; });
  if (generation_ == before) require_no_failure(rank);
}

void LocalTeam::deliver(const Address& address, const void* data, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(data);
  const std::lock_guard lock(job_->mutex_);
  require_no_failure(address.source);
  mail_[address].emplace_back(first, first + bytes);
  job_->changed_.notify_all();
}

bool LocalTeam::take(const Address& address, void* data, std::size_t bytes) {
  const auto found = mail_.find(address);
  if (found == mail_.end()) return false;
  const std::vector<std::byte> letter = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) mail_.erase(found);
  TT_CHECK_EQ(letter.size(), bytes);
  if (bytes > 0) std::memcpy(data, letter.data(), bytes);
  return true;
}

bool LocalTeam::try_collect(const Address& address, void* data, std::size_t bytes) {
  const std::lock_guard lock(job_->mutex_);
  require_no_failure(address.destination);
  return take(address, data, bytes);
}

void LocalTeam::collect(const Address& address, void* data, std::size_t bytes) {
  std::unique_lock lock(job_->mutex_);
  job_->changed_.wait(lock, [&] { return mail_.contains(address) || job_->failure_; });
  if (!take(address, data, bytes)) require_no_failure(address.destination);
}

}  // namespace tt::comm::detail
