#include "src/comm/local/single_group.h"

#include <string>

#include "tensor_tracer/base/check.h"

namespace tt::comm::detail {
namespace {

class SingleGroup final : public GroupImpl {
 public:
  std::string_view backend() const override { return "local"; }
  bool supports(at::Device) const override { return true; }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::shared_ptr<GroupImpl> split(int, int) override { return make_single_group(); }

  void all_reduce(at::Tensor&, ReduceOp) override {}
  void all_gather(const at::Tensor& input, at::Tensor& output) override {
    copy_elements(input, output);
  }
  void gather(const at::Tensor& input, at::Tensor& output, int) override {
    copy_elements(input, output);
  }
  void reduce_scatter(const at::Tensor& input, at::Tensor& output, ReduceOp) override {
    copy_elements(input, output);
  }
  void broadcast(at::Tensor&, int) override {}
  void send(const at::Tensor&, int, int) override { no_peer("send"); }
  void receive(at::Tensor&, int, int) override { no_peer("receive"); }
  void barrier() override {}
  std::unique_ptr<WorkImpl> gather_bytes(const at::Tensor& input, std::span<const std::size_t>,
                                         const at::Tensor& output, int) override {
    copy_elements(input, output);
    return nullptr;
  }
  std::unique_ptr<WorkImpl> broadcast_bytes(const at::Tensor&, int) override { return nullptr; }

 private:
  [[noreturn]] static void no_peer(const char* operation) {
    base::check_failed(__FILE__, __LINE__, std::string(operation) + " in a group of one rank");
  }
};

}  // namespace

std::shared_ptr<GroupImpl> make_single_group() { return std::make_shared<SingleGroup>(); }

}  // namespace tt::comm::detail
