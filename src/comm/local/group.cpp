#include "src/comm/local/group.h"

#include <algorithm>
#include <cstring>

#include "src/comm/local/single_group.h"
#include "src/comm/reduce.h"

namespace tt::comm::detail {
namespace {

struct Member {
  int color;
  int key;
  int rank;
};

/// Letters (messages) that have not arrived yet.
class LocalWork final : public WorkImpl {
 public:
  struct Letter {
    LocalTeam::Address address;
    at::Tensor target;
  };
  LocalWork(std::shared_ptr<LocalTeam> team, std::deque<Letter> letters)
      : team_(std::move(team)), letters_(std::move(letters)) {}

  bool test() override {
    while (!letters_.empty()) {
      const Letter& next = letters_.front();
      if (!team_->try_collect(next.address, next.target.mutable_data_ptr(), next.target.nbytes()))
        return false;
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

  std::string_view backend() const override { return "local"; }
  bool supports(at::Device device) const override { return device.is_cpu(); }
  int rank() const override { return rank_; }
  int size() const override { return team_->size(); }
  std::shared_ptr<GroupImpl> split(int color, int key) override;

  void all_reduce(at::Tensor& tensor, ReduceOp op) override;
  void all_gather(const at::Tensor& input, at::Tensor& output) override;
  void gather(const at::Tensor& input, at::Tensor& output, int root) override;
  void reduce_scatter(const at::Tensor& input, at::Tensor& output, ReduceOp op) override;
  void broadcast(at::Tensor& tensor, int root) override;
  void send(const at::Tensor& tensor, int destination, int tag) override {
    team_->deliver({rank_, destination, tag}, tensor.const_data_ptr(), tensor.nbytes());
  }
  void receive(at::Tensor& tensor, int source, int tag) override {
    team_->collect({source, rank_, tag}, tensor.mutable_data_ptr(), tensor.nbytes());
  }
  void barrier() override { team_->meet(rank_); }
  std::unique_ptr<WorkImpl> gather_bytes(const at::Tensor& input,
                                         std::span<const std::size_t> counts,
                                         const at::Tensor& output, int root) override;
  std::unique_ptr<WorkImpl> broadcast_bytes(const at::Tensor& bytes, int root) override;

 private:
  /// Every asynchronous operation has a separate channel, so a rank may wait for operations in any
  /// order. All ranks start the operations in the same order. The channels of send and receive are
  /// the tags.
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
  std::stable_sort(
      members.begin(), members.end(),
      [](const Member& a, const Member& b) { return a.key < b.key; });
  const auto place = std::find_if(members.begin(), members.end(),
                                  [&](const Member& member) { return member.rank == rank_; });
  // The first rank of the new group creates the team; the other ranks take it from the first rank.
  const int first = members.front().rank;
  std::shared_ptr<LocalTeam> team;
  if (first == rank_) team = std::make_shared<LocalTeam>(team_->job(), members.size());
  const auto& teams = team_->post(rank_, &team, sizeof(team));
  auto shared = *static_cast<const std::shared_ptr<LocalTeam>*>(teams[first]);
  team_->meet(rank_);
  return make_local_group(std::move(shared), static_cast<int>(place - members.begin()));
}

void LocalGroup::all_reduce(at::Tensor& tensor, ReduceOp op) {
  std::vector<std::byte> result(tensor.nbytes());
  reduce_in_order(team_->post(rank_, tensor.const_data_ptr(), result.size()), result.data(),
                  elements_of(tensor), op);
  team_->meet(rank_);
  std::memcpy(tensor.mutable_data_ptr(), result.data(), result.size());
}

void LocalGroup::all_gather(const at::Tensor& input, at::Tensor& output) {
  auto* target = static_cast<std::byte*>(output.mutable_data_ptr());
  for (const void* part : team_->post(rank_, input.const_data_ptr(), input.nbytes())) {
    if (part != target) std::memcpy(target, part, input.nbytes());
    target += input.nbytes();
  }
  team_->meet(rank_);
}

void LocalGroup::gather(const at::Tensor& input, at::Tensor& output, int root) {
  const auto& parts = team_->post(rank_, input.const_data_ptr(), input.nbytes());
  if (rank_ == root) {
    auto* target = static_cast<std::byte*>(output.mutable_data_ptr());
    for (const void* part : parts) {
      std::memcpy(target, part, input.nbytes());
      target += input.nbytes();
    }
  }
  team_->meet(rank_);
}

void LocalGroup::reduce_scatter(const at::Tensor& input, at::Tensor& output, ReduceOp op) {
  std::vector<const void*> parts = team_->post(rank_, input.const_data_ptr(), input.nbytes());
  for (const void*& part : parts)
    part = static_cast<const std::byte*>(part) + rank_ * output.nbytes();
  reduce_in_order(parts, output.mutable_data_ptr(), elements_of(output), op);
  team_->meet(rank_);
}

void LocalGroup::broadcast(at::Tensor& tensor, int root) {
  void* data = tensor.mutable_data_ptr();
  const void* source = team_->post(rank_, data, tensor.nbytes())[root];
  if (rank_ != root) std::memcpy(data, source, tensor.nbytes());
  team_->meet(rank_);
}

std::unique_ptr<WorkImpl> LocalGroup::gather_bytes(const at::Tensor& input,
                                                   std::span<const std::size_t> counts,
                                                   const at::Tensor& output, int root) {
  const std::int64_t channel = next_channel();
  team_->deliver({rank_, root, channel}, input.const_data_ptr(), input.nbytes());
  if (rank_ != root) return nullptr;
  std::deque<LocalWork::Letter> letters;
  std::int64_t begin = 0;
  for (int source = 0; source < size(); ++source) {
    const auto count = static_cast<std::int64_t>(counts[source]);
    letters.push_back({{source, rank_, channel}, output.narrow(0, begin, count)});
    begin += count;
  }
  return std::make_unique<LocalWork>(team_, std::move(letters));
}

std::unique_ptr<WorkImpl> LocalGroup::broadcast_bytes(const at::Tensor& bytes, int root) {
  const std::int64_t channel = next_channel();
  if (rank_ == root) {
    for (int destination = 0; destination < size(); ++destination) {
      if (destination == root) continue;
      team_->deliver({rank_, destination, channel}, bytes.const_data_ptr(), bytes.nbytes());
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
