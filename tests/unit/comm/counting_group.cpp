#include "tests/unit/comm/counting_group.h"

#include <utility>

#include "src/comm/group_impl.h"

namespace tt::comm {
namespace {

class Pending : public detail::WorkImpl {
 public:
  explicit Pending(Work work) : work_(std::move(work)) {}
  bool test() override { return work_.test(); }

 private:
  Work work_;
};

class CountingGroup : public detail::GroupImpl {
 public:
  CountingGroup(const ProcessGroup& group, std::shared_ptr<Traffic> traffic)
      : group_(group), traffic_(std::move(traffic)) {}

  std::string_view backend() const override { return group_.backend(); }
  bool supports(at::Device device) const override { return group_.supports(device); }
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::shared_ptr<GroupImpl> split(int color, int key) override {
    return std::make_shared<CountingGroup>(group_.split(color, key), std::make_shared<Traffic>());
  }

  void all_reduce(at::Tensor& tensor, ReduceOp op) override {
    ++traffic_->collectives;
    group_.all_reduce(tensor, op);
  }
  void all_gather(const at::Tensor& input, at::Tensor& output) override {
    ++traffic_->collectives;
    group_.all_gather(input, output);
  }
  void gather(const at::Tensor& input, at::Tensor& output, int root) override {
    ++traffic_->collectives;
    group_.gather(input, output, root);
  }
  void reduce_scatter(const at::Tensor& input, at::Tensor& output, ReduceOp op) override {
    ++traffic_->collectives;
    group_.reduce_scatter(input, output, op);
  }
  void broadcast(at::Tensor& tensor, int root) override {
    ++traffic_->collectives;
    group_.broadcast(tensor, root);
  }
  void send(const at::Tensor& tensor, int destination, int tag) override {
    ++traffic_->collectives;
    group_.send(tensor, destination, tag);
  }
  void receive(at::Tensor& tensor, int source, int tag) override {
    ++traffic_->collectives;
    group_.receive(tensor, source, tag);
  }
  void barrier() override {
    ++traffic_->collectives;
    group_.barrier();
  }
  std::unique_ptr<detail::WorkImpl> gather_bytes(const at::Tensor& input,
                                                 std::span<const std::size_t> counts,
                                                 const at::Tensor& output, int root) override {
    ++traffic_->gathers;
    return std::make_unique<Pending>(group_.gather_bytes(input, counts, output, root));
  }
  std::unique_ptr<detail::WorkImpl> broadcast_bytes(const at::Tensor& bytes, int root) override {
    ++traffic_->broadcasts;
    traffic_->bytes += bytes.nbytes();
    return std::make_unique<Pending>(group_.broadcast_bytes(bytes, root));
  }

 private:
  const ProcessGroup group_;
  const std::shared_ptr<Traffic> traffic_;
};

}  // namespace

ProcessGroup make_counting(const ProcessGroup& group, std::shared_ptr<Traffic> traffic) {
  return ProcessGroup(std::make_shared<CountingGroup>(group, std::move(traffic)));
}

}  // namespace tt::comm
