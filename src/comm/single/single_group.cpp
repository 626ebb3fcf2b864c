#include "src/comm/single/single_group.h"

#include <cstring>

#include "tensor_tracer/base/check.h"

namespace tt::comm::detail {
namespace {

void copy(const void* input, void* output, std::size_t bytes) {
  if (input != output && bytes > 0) std::memcpy(output, input, bytes);
}

class SingleGroup final : public GroupImpl {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::shared_ptr<GroupImpl> split(int, int) override { return make_single_group(); }

  void all_reduce(void*, Elements, ReduceOp) override {}
  void all_gather(const void* input, void* output, std::size_t bytes) override {
    copy(input, output, bytes);
  }
  void gather(const void* input, void* output, std::size_t bytes, int) override {
    copy(input, output, bytes);
  }
  void reduce_scatter(const void* input, void* output, Elements elements, ReduceOp) override {
    copy(input, output, elements.bytes());
  }
  void broadcast(void*, std::size_t, int) override {}
  void send(const void*, std::size_t, int, int) override { no_peer("send"); }
  void receive(void*, std::size_t, int, int) override { no_peer("receive"); }
  void barrier() override {}
  std::unique_ptr<WorkImpl> gather_bytes(std::span<const std::byte> input,
                                         std::span<const std::size_t>, std::span<std::byte> output,
                                         int) override {
    copy(input.data(), output.data(), input.size());
    return nullptr;
  }
  std::unique_ptr<WorkImpl> broadcast_bytes(std::span<std::byte>, int) override { return nullptr; }

 private:
  [[noreturn]] static void no_peer(const char* operation) {
    base::check_failed(__FILE__, __LINE__, std::string(operation) + " in a group of one rank");
  }
};

}  // namespace

std::shared_ptr<GroupImpl> make_single_group() { return std::make_shared<SingleGroup>(); }

}  // namespace tt::comm::detail
