#include "src/comm/c10d/group.h"

#include <algorithm>
#include <cstring>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include "src/comm/c10d/device_reduce.h"
#include "src/comm/local/single_group.h"
#include "src/comm/reduce.h"
#include "tensor_tracer/base/check.h"

namespace tt::comm::c10d {
namespace {

using detail::Elements;

// Each of the two scratch buffers of a reduction has at most this many bytes.
constexpr std::int64_t kScratchBytes = std::int64_t{8} << 20;
// Fewer bytes are reduced whole by every rank: one exchange instead of two.
constexpr std::int64_t kSmallBytes = 4096;

using Pending = c10::intrusive_ptr<::c10d::Work>;

/// The memory of a contiguous tensor as uint8, which every backend carries. It does not own the
/// memory.
at::Tensor bytes_of(const at::Tensor& tensor) {
  return at::from_blob(const_cast<void*>(tensor.const_data_ptr()),
                       {static_cast<std::int64_t>(tensor.nbytes())},
                       at::device(tensor.device()).dtype(at::kByte));
}

at::Tensor scratch(std::int64_t bytes, at::Device device = at::kCPU) {
  return at::zeros({bytes}, at::device(device).dtype(at::kByte));
}

std::byte* data_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

std::string text_of(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
}

class C10dWork final : public detail::WorkImpl {
 public:
  C10dWork(Pending work, std::string where, std::vector<at::Tensor> buffers)
      : work_(std::move(work)), where_(std::move(where)), buffers_(std::move(buffers)) {}

  bool test() override try {
    if (!work_->isCompleted()) return false;
    work_->wait();  // throws what has failed
    return true;
  } catch (const std::exception& error) {
    throw CommError(where_ + ": " + text_of(error));
  }

 private:
  const Pending work_;
  const std::string where_;
  const std::vector<at::Tensor> buffers_;
};

class C10dGroup final : public detail::GroupImpl {
 public:
  C10dGroup(std::shared_ptr<Job> job, std::string name, int rank, int size)
      : job_(std::move(job)), name_(std::move(name)), rank_(rank), size_(size) {
    run(
        "connecting", [&] { backends_ = job_->make(name_, rank, size); });
  }

  std::string_view backend() const override {
    return backends_.cuda == nullptr ? "gloo" : "gloo and nccl";
  }
  bool supports(at::Device device) const override {
    return device.is_cpu() || (device.is_cuda() && backends_.cuda != nullptr);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::shared_ptr<GroupImpl> split(int color, int key) override;

  void all_reduce(at::Tensor& tensor, ReduceOp op) override;
  void all_gather(const at::Tensor& input, at::Tensor& output) override {
    at::Tensor from = bytes_of(input), to = bytes_of(output);
    wait("all_gather", [&] { return of(from)->_allgather_base(to, from); });
  }
  void gather(const at::Tensor& input, at::Tensor& output, int root) override {
    const std::vector<std::size_t> counts(size_, input.nbytes());
    const at::Tensor to = rank_ == root ? bytes_of(output) : at::Tensor();
    wait("gather", [&] { return start_gather(bytes_of(input), counts, to, root); });
  }
  void reduce_scatter(const at::Tensor& input, at::Tensor& output, ReduceOp op) override;
  void broadcast(at::Tensor& tensor, int root) override {
    wait(
        "broadcast", [&] { return start_broadcast(bytes_of(tensor), root); });
  }
  void send(const at::Tensor& tensor, int destination, int tag) override {
    std::vector<at::Tensor> sent = {bytes_of(tensor)};
    wait("send", [&] { return of(tensor)->send(sent, destination, tag); });
  }
  void receive(at::Tensor& tensor, int source, int tag) override {
    std::vector<at::Tensor> received = {bytes_of(tensor)};
    wait("receive", [&] { return of(tensor)->recv(received, source, tag); });
  }
  void barrier() override {
    wait(
        "barrier", [&] { return backends_.cpu->barrier(); });
  }
  std::unique_ptr<detail::WorkImpl> gather_bytes(const at::Tensor& input,
                                                 std::span<const std::size_t> counts,
                                                 const at::Tensor& output, int root) override {
    return start(
        "gather_bytes", {input, output}, [&] { return start_gather(input, counts, output, root); });
  }
  std::unique_ptr<detail::WorkImpl> broadcast_bytes(const at::Tensor& bytes, int root) override {
    return start(
        "broadcast_bytes", {bytes}, [&] { return start_broadcast(bytes, root); });
  }

 private:
  std::string where(const char* operation) const {
    return std::string(operation) + " on rank " + std::to_string(rank_) + " of " +
           std::to_string(size_);
  }
  void run(const char* operation, const auto& body) const {
    TT_CHECK(job_->make != nullptr, "a group was used after its World had ended");
    try {
      body();
    } catch (const std::exception& error) {
      throw CommError(where(operation) + ": " + text_of(error));
    }
  }
  void wait(const char* operation, const auto& begin) const {
    run(
        operation, [&] { begin()->wait(); });
  }
  std::unique_ptr<detail::WorkImpl> start(const char* operation, std::vector<at::Tensor> buffers,
                                          const auto& begin) const {
    Pending pending;
    run(operation, [&] { pending = begin(); });
    if (!buffers.front().is_cpu()) {
      run(operation, [&] { pending->wait(); });  // the current stream waits
      return nullptr;
    }
    return std::make_unique<C10dWork>(std::move(pending), where(operation), std::move(buffers));
  }

  const BackendPointer& of(const at::Tensor& tensor) const {
    return tensor.is_cpu() ? backends_.cpu : backends_.cuda;
  }
  Pending start_broadcast(at::Tensor bytes, int root) const;
  Pending start_gather(at::Tensor input, std::span<const std::size_t> counts, at::Tensor output,
                       int root) const;
  void all_reduce_on_device(const at::Tensor& tensor, ReduceOp op) const;
  void reduce_scatter_on_device(const at::Tensor& input, const at::Tensor& output,
                                ReduceOp op) const;
  void all_reduce_small(std::byte* data, Elements elements, ReduceOp op) const;
  void all_reduce_blocks(std::byte* data, Elements elements, ReduceOp op) const;
  void reduce_blocks(at::Tensor blocks, Elements block, ReduceOp op, std::byte* result) const;
  void reduce_parts(const at::Tensor& parts, Elements part, ReduceOp op, std::byte* result) const;
  std::int64_t largest_block(Elements elements) const {
    const auto item = static_cast<std::int64_t>(c10::elementSize(elements.dtype));
    return std::max<std::int64_t>(1, kScratchBytes / item / size_);
  }

  const std::shared_ptr<Job> job_;
  const std::string name_;
  const int rank_;
  const int size_;
  int splits_ = 0;
  Backends backends_;
};

std::shared_ptr<detail::GroupImpl> C10dGroup::split(int color, int key) {
  const at::Tensor own = at::tensor({color, key}, at::device(at::kCPU).dtype(at::kInt));
  at::Tensor all = at::empty({size_, 2}, own.options());
  all_gather(own, all);
  const auto choices = all.accessor<int, 2>();
  std::vector<std::pair<int, int>> members;  // key and rank
  for (int rank = 0; rank < size_; ++rank)
    if (choices[rank][0] == color) members.emplace_back(choices[rank][1], rank);
  std::ranges::sort(members);
  const auto own_place = std::ranges::find(members, std::pair(key, rank_));
  const std::string name = name_ + "/" + std::to_string(splits_++) + "." + std::to_string(color);
  return make_group(job_, name, static_cast<int>(own_place - members.begin()),
                    static_cast<int>(members.size()));
}

Pending C10dGroup::start_broadcast(at::Tensor bytes, int root) const {
  std::vector<at::Tensor> tensors = {std::move(bytes)};
  return of(tensors.front())->broadcast(tensors, {.rootRank = root});
}

// Ranks send their bytes to the root and nothing to the others. A gather of c10d needs equal sizes.
Pending C10dGroup::start_gather(at::Tensor input, std::span<const std::size_t> counts,
                                at::Tensor output, int root) const {
  std::vector<std::int64_t> sent(size_), received(size_);
  sent[root] = input.numel();
  if (rank_ == root)
    received.assign(counts.begin(), counts.end());
  else
    output = scratch(0, input.device());
  return of(input)->alltoall_base(output, input, received, sent);
}

void C10dGroup::all_reduce(at::Tensor& tensor, ReduceOp op) {
  if (!tensor.is_cpu()) return all_reduce_on_device(tensor, op);
  const Elements elements = detail::elements_of(tensor);
  const bool is_small = static_cast<std::int64_t>(elements.bytes()) * size_ <= kSmallBytes;
  (this->*(is_small ? &C10dGroup::all_reduce_small : &C10dGroup::all_reduce_blocks))(
      data_of(tensor), elements, op);
}

void C10dGroup::all_reduce_small(std::byte* data, Elements elements, ReduceOp op) const {
  const auto bytes = static_cast<std::int64_t>(elements.bytes());
  at::Tensor own = scratch(bytes), all = scratch(bytes * size_);
  std::memcpy(data_of(own), data, elements.bytes());
  wait("all_reduce", [&] { return backends_.cpu->_allgather_base(all, own); });
  reduce_parts(all, elements, op, data);
}

void C10dGroup::all_reduce_blocks(std::byte* data, Elements elements, ReduceOp op) const {
  const std::int64_t chunk = largest_block(elements) * size_;
  for (std::int64_t begin = 0; begin < elements.count; begin += chunk) {
    const Elements now = {std::min(chunk, elements.count - begin), elements.dtype};
    const Elements block = {(now.count + size_ - 1) / size_, elements.dtype};
    const auto bytes = static_cast<std::int64_t>(block.bytes());
    std::byte* const place = data + Elements{begin, elements.dtype}.bytes();
    at::Tensor blocks = scratch(bytes * size_), own = scratch(bytes);
    std::memcpy(data_of(blocks), place, now.bytes());
    reduce_blocks(blocks, block, op, data_of(own));
    wait("all_reduce", [&] { return backends_.cpu->_allgather_base(blocks, own); });
    std::memcpy(place, data_of(blocks), now.bytes());
  }
}

void C10dGroup::all_reduce_on_device(const at::Tensor& tensor, ReduceOp op) const {
  at::Tensor all = at::empty({size_, tensor.numel()}, tensor.options());
  at::Tensor from = bytes_of(tensor), to = bytes_of(all);
  wait("all_reduce", [&] { return of(from)->_allgather_base(to, from); });
  reduce_tensors(all, op, tensor.view({-1}));
}

void C10dGroup::reduce_scatter_on_device(const at::Tensor& input, const at::Tensor& output,
                                         ReduceOp op) const {
  at::Tensor all = at::empty({size_, output.numel()}, output.options());
  at::Tensor from = bytes_of(input), to = bytes_of(all);
  std::vector<std::int64_t> equal;
  wait("reduce_scatter", [&] { return of(from)->alltoall_base(to, from, equal, equal); });
  reduce_tensors(all, op, output.view({-1}));
}

void C10dGroup::reduce_scatter(const at::Tensor& input, at::Tensor& output, ReduceOp op) {
  if (!input.is_cpu()) return reduce_scatter_on_device(input, output, op);
  const Elements elements = detail::elements_of(output);
  const std::int64_t chunk = largest_block(elements);
  for (std::int64_t begin = 0; begin < elements.count; begin += chunk) {
    const Elements block = {std::min(chunk, elements.count - begin), elements.dtype};
    const std::size_t first = Elements{begin, elements.dtype}.bytes();
    const at::Tensor blocks = scratch(static_cast<std::int64_t>(block.bytes()) * size_);
    for (int rank = 0; rank < size_; ++rank) {
      std::memcpy(
          data_of(blocks) + rank * block.bytes(),
          static_cast<const std::byte*>(input.const_data_ptr()) + rank * elements.bytes() + first,
          block.bytes());
    }
    reduce_blocks(blocks, block, op, data_of(output) + first);
  }
}

// Gives each rank its block of all ranks, and reduces these.
void C10dGroup::reduce_blocks(at::Tensor blocks, Elements block, ReduceOp op,
                              std::byte* result) const {
  at::Tensor incoming = scratch(blocks.numel());
  std::vector<std::int64_t> equal;
  wait("reduction", [&] { return backends_.cpu->alltoall_base(incoming, blocks, equal, equal); });
  reduce_parts(incoming, block, op, result);
}

void C10dGroup::reduce_parts(const at::Tensor& parts, Elements part, ReduceOp op,
                             std::byte* result) const {
  std::vector<const void*> sources;
  for (int rank = 0; rank < size_; ++rank) sources.push_back(data_of(parts) + rank * part.bytes());
  detail::reduce_in_order(sources, result, part, op);
}

}  // namespace

std::shared_ptr<detail::GroupImpl> make_group(std::shared_ptr<Job> job, const std::string& name,
                                              int rank, int size) {
  if (size == 1) return detail::make_single_group();
  return std::make_shared<C10dGroup>(std::move(job), name, rank, size);
}

}  // namespace tt::comm::c10d
