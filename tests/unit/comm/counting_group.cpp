#include "tests/unit/comm/counting_group.h"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "src/comm/group_impl.h"

namespace tt::comm {
namespace {

using detail::Elements;

at::Tensor bytes_at(const void* data, std::size_t bytes) {
  return at::from_blob(const_cast<void*>(data), {static_cast<std::int64_t>(bytes)}, at::kByte);
}

at::Tensor numbers_at(const void* data, Elements elements, std::int64_t times = 1) {
  return at::from_blob(const_cast<void*>(data), {times * elements.count}, elements.dtype);
}

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

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::shared_ptr<GroupImpl> split(int color, int key) override {
    return std::make_shared<CountingGroup>(group_.split(color, key), std::make_shared<Traffic>());
  }

  void all_reduce(void* data, Elements elements, ReduceOp op) override {
    ++traffic_->collectives;
    at::Tensor tensor = numbers_at(data, elements);
    group_.all_reduce(tensor, op);
  }
  void all_gather(const void* input, void* output, std::size_t bytes) override {
    ++traffic_->collectives;
    at::Tensor all = bytes_at(output, bytes * static_cast<std::size_t>(size()));
    group_.all_gather(bytes_at(input, bytes), all);
  }
  void gather(const void* input, void* output, std::size_t bytes, int root) override {
    ++traffic_->collectives;
    at::Tensor all =
        bytes_at(output, rank() == root ? bytes * static_cast<std::size_t>(size()) : 0);
    group_.gather(bytes_at(input, bytes), all, root);
  }
  void reduce_scatter(const void* input, void* output, Elements elements, ReduceOp op) override {
    ++traffic_->collectives;
    at::Tensor part = numbers_at(output, elements);
    group_.reduce_scatter(numbers_at(input, elements, size()), part, op);
  }
  void broadcast(void* data, std::size_t bytes, int root) override {
    ++traffic_->collectives;
    at::Tensor all = bytes_at(data, bytes);
    group_.broadcast(all, root);
  }
  void send(const void* data, std::size_t bytes, int destination, int tag) override {
    ++traffic_->collectives;
    group_.send(bytes_at(data, bytes), destination, tag);
  }
  void receive(void* data, std::size_t bytes, int source, int tag) override {
    ++traffic_->collectives;
    at::Tensor into = bytes_at(data, bytes);
    group_.receive(into, source, tag);
  }
  void barrier() override {
    ++traffic_->collectives;
    group_.barrier();
  }
  std::unique_ptr<detail::WorkImpl> gather_bytes(std::span<const std::byte> input,
                                                 std::span<const std::size_t> counts,
                                                 std::span<std::byte> output, int root) override {
    ++traffic_->gathers;
    return std::make_unique<Pending>(group_.gather_bytes(input, counts, output, root));
  }
  std::unique_ptr<detail::WorkImpl> broadcast_bytes(std::span<std::byte> bytes, int root) override {
    ++traffic_->broadcasts;
    traffic_->bytes += bytes.size();
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
