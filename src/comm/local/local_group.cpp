#include "src/comm/local/local_group.h"

#include <algorithm>
#include <cstring>

#include "src/comm/reduce.h"
#include "src/comm/single/single_group.h"

namespace tt::comm::detail {
namespace {

struct Member {
  int color;
  int key;
  int rank;
};

/// Letters that are still to come.
class LocalWork final : public WorkImpl {
 public:
  struct Letter {
    LocalTeam::Address address;
    std::span<std::byte> target;
  };
  LocalWork(std::shared_ptr<LocalTeam> team, std::deque<Letter> letters)
      : team_(std::move(team)), letters_(std::move(letters)) {}

  bool test() override {
    while (!letters_.empty()) {
      const Letter& next = letters_.front();
      if (!team_->try_collect(next.address, next.target.data(), next.target.size())) return false;
      letters_.pop_front();
    }
    return true;
  }

 private:
  const std::shared_ptr<LocalTeam> team_;
  std::deque<Letter> letters_;
};

class LocalGroup final : public GroupImpl {
 public:
  LocalGroup(std::shared_ptr<LocalTeam> team, int rank) : team_(std::move(team)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return team_->size(); }
  std::shared_ptr<GroupImpl> split(int color, int key) override;

  void all_reduce(void* data, Elements elements, ReduceOp op) override;
  void all_gather(const void* input, void* output, std::size_t bytes) override;
  void gather(const void* input, void* output, std::size_t bytes, int root) override;
  void reduce_scatter(const void* input, void* output, Elements elements, ReduceOp op) override;
  void broadcast(void* data, std::size_t bytes, int root) override;
  void send(const void* data, std::size_t bytes, int destination, int tag) override {
    team_->deliver({rank_, destination, tag}, data, bytes);
  }
  void receive(void* data, std::size_t bytes, int source, int tag) override {
    team_->collect({source, rank_, tag}, data, bytes);
  }
  void barrier() override { team_->meet(rank_); }
  std::unique_ptr<WorkImpl> gather_bytes(std::span<const std::byte> input,
                                         std::span<const std::size_t> counts,
                                         std::span<std::byte> output, int root) override;
  std::unique_ptr<WorkImpl> broadcast_bytes(std::span<std::byte> bytes, int root) override;

 private:
  /// Every asynchronous operation has a channel of its own, so that they may be waited for in any
  /// order; the ranks start them in the same order. The channels of send and receive are the tags.
  std::int64_t next_channel() { return --last_channel_; }

  const std::shared_ptr<LocalTeam> team_;
  const int rank_;
  std::int64_t last_channel_ = 0;
};

std::shared_ptr<GroupImpl> LocalGroup::split(int color, int key) {
  const Member own{color, key, rank_};
  std::vector<Member> members;
  for (const void* other : team_->post(rank_, &own, sizeof(own))) {
    const auto& member = *static_cast<const Member*>(other);
    if (member.color == color) members.push_back(member);
  }
  team_->meet(rank_);
  std::stable_sort(members.begin(), members.end(),
                   [](const Member& a, const Member& b) { return a.key < b.key; });
  const auto place = std::find_if(members.begin(), members.end(),
                                  [&](const Member& member) { return member.rank == rank_; });
  // The first of the new group makes it, the others find it with the first.
  const int first = members.front().rank;
  std::shared_ptr<LocalTeam> team;
  if (first == rank_) team = std::make_shared<LocalTeam>(team_->job(), members.size());
  const auto& teams = team_->post(rank_, &team, sizeof(team));
  auto shared = *static_cast<const std::shared_ptr<LocalTeam>*>(teams[first]);
  team_->meet(rank_);
  return make_local_group(std::move(shared), static_cast<int>(place - members.begin()));
}

void LocalGroup::all_reduce(void* data, Elements elements, ReduceOp op) {
  std::vector<std::byte> result(elements.bytes());
  reduce_in_order(team_->post(rank_, data, elements.bytes()), result.data(), elements, op);
  team_->meet(rank_);
  std::memcpy(data, result.data(), result.size());
}

void LocalGroup::all_gather(const void* input, void* output, std::size_t bytes) {
  auto* target = static_cast<std::byte*>(output);
  for (const void* part : team_->post(rank_, input, bytes)) {
    if (part != target) std::memcpy(target, part, bytes);
    target += bytes;
  }
  team_->meet(rank_);
}

void LocalGroup::gather(const void* input, void* output, std::size_t bytes, int root) {
  auto* target = static_cast<std::byte*>(output);
  for (const void* part : team_->post(rank_, input, bytes)) {
    if (rank_ != root) break;
    std::memcpy(target, part, bytes);
    target += bytes;
  }
  team_->meet(rank_);
}

void LocalGroup::reduce_scatter(const void* input, void* output, Elements elements, ReduceOp op) {
  std::vector<const void*> parts = team_->post(rank_, input, elements.bytes());
  for (const void*& part : parts) {
    part = static_cast<const std::byte*>(part) + rank_ * elements.bytes();
  }
  reduce_in_order(parts, output, elements, op);
  team_->meet(rank_);
}

void LocalGroup::broadcast(void* data, std::size_t bytes, int root) {
  const void* source = team_->post(rank_, data, bytes)[root];
  if (rank_ != root) std::memcpy(data, source, bytes);
  team_->meet(rank_);
}

std::unique_ptr<WorkImpl> LocalGroup::gather_bytes(std::span<const std::byte> input,
                                                   std::span<const std::size_t> counts,
                                                   std::span<std::byte> output, int root) {
  const std::int64_t channel = next_channel();
  team_->deliver({rank_, root, channel}, input.data(), input.size());
  if (rank_ != root) return nullptr;
  std::deque<LocalWork::Letter> letters;
  std::size_t begin = 0;
  for (int source = 0; source < size(); ++source) {
    letters.push_back({{source, rank_, channel}, output.subspan(begin, counts[source])});
    begin += counts[source];
  }
  return std::make_unique<LocalWork>(team_, std::move(letters));
}

std::unique_ptr<WorkImpl> LocalGroup::broadcast_bytes(std::span<std::byte> bytes, int root) {
  const std::int64_t channel = next_channel();
  if (rank_ == root) {
    for (int destination = 0; destination < size(); ++destination) {
      if (destination == root) continue;
      team_->deliver({rank_, destination, channel}, bytes.data(), bytes.size());
    }
    return nullptr;
  }
  std::deque<LocalWork::Letter> letters{{{root, rank_, channel}, bytes}};
  return std::make_unique<LocalWork>(team_, std::move(letters));
}

}  // namespace

std::shared_ptr<GroupImpl> make_local_group(std::shared_ptr<LocalTeam> team, int rank) {
  if (team->size() == 1) return make_single_group();
  return std::make_shared<LocalGroup>(std::move(team), rank);
}

}  // namespace tt::comm::detail
