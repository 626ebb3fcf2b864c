#include "tensor_tracer/comm/process_group.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <sstream>

#include "src/comm/group_impl.h"
#include "src/comm/reduce.h"
#include "src/comm/single/single_group.h"
#include "tensor_tracer/base/check.h"

namespace tt::comm {
namespace {

using detail::Elements;

constexpr int kBytes = -1;  // in place of a dtype, where an operation only moves bytes

std::size_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * tensor.element_size();
}

Elements elements_of(const at::Tensor& tensor) {
  return {.count = tensor.numel(), .dtype = tensor.scalar_type()};
}

int dtype_of(const at::Tensor& tensor) { return static_cast<int>(tensor.scalar_type()); }

std::string describe(const at::Tensor& tensor) {
  std::ostringstream out;
  out << tensor.scalar_type() << tensor.sizes();
  return out.str();
}

void check_input(const at::Tensor& tensor) {
  TT_CHECK(tensor.defined(), "an undefined tensor");
  TT_CHECK(tensor.is_cpu() && tensor.layout() == at::kStrided,
           "only dense CPU tensors are carried");
  TT_CHECK(!tensor.is_complex() && !tensor.is_quantized(), describe(tensor));
}

/// Checks a tensor that is about to be written and tells autograd that it is.
void prepare_output(const at::Tensor& tensor) {
  check_input(tensor);
  TT_CHECK(tensor.is_contiguous(), describe(tensor) + " is written and must be contiguous");
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

/// `whole` holds one `part` of every rank.
void check_parts(const at::Tensor& part, const at::Tensor& whole, int size) {
  TT_CHECK(part.scalar_type() == whole.scalar_type() && part.numel() * size == whole.numel(),
           std::to_string(size) + " x " + describe(part) + " against " + describe(whole));
}

void check_reducible(const at::Tensor& tensor) {
  TT_CHECK(detail::reducible(tensor.scalar_type()),
           describe(tensor) + ": reductions take f64, f32, bf16, f16, i64 and i32");
}

void check_rank(int rank, int size) {
  TT_CHECK(0 <= rank && rank < size,
           "rank " + std::to_string(rank) + " in a group of " + std::to_string(size));
}

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  const auto* a_begin = static_cast<const std::byte*>(a.const_data_ptr());
  const auto* b_begin = static_cast<const std::byte*>(b.const_data_ptr());
  return a_begin < b_begin + bytes_of(b) && b_begin < a_begin + bytes_of(a);
}

}  // namespace

ProcessGroup::ProcessGroup() : impl_(detail::make_single_group()) {}
ProcessGroup::ProcessGroup(std::shared_ptr<detail::GroupImpl> impl) : impl_(std::move(impl)) {}

int ProcessGroup::rank() const { return impl_->rank(); }
int ProcessGroup::size() const { return impl_->size(); }

ProcessGroup ProcessGroup::split(int color, int key) const {
  TT_CHECK(color >= 0, "color " + std::to_string(color) + " must be 0 or more");
  impl_->sequence().record("split", 0, kBytes);
  return ProcessGroup(impl_->split(color, key));
}

void ProcessGroup::all_reduce(at::Tensor& tensor, ReduceOp op) const {
  prepare_output(tensor);
  check_reducible(tensor);
  impl_->sequence().record(op == ReduceOp::kSum ? "all_reduce sum" : "all_reduce max",
                           bytes_of(tensor), dtype_of(tensor));
  if (tensor.numel() == 0) return;
  impl_->all_reduce(tensor.mutable_data_ptr(), elements_of(tensor), op);
}

void ProcessGroup::all_gather(const at::Tensor& input, at::Tensor& output) const {
  check_input(input);
  prepare_output(output);
  check_parts(input, output, size());
  impl_->sequence().record("all_gather", bytes_of(input), dtype_of(input));
  if (input.numel() == 0) return;
  const auto dense = input.expect_contiguous();
  auto* own_part = static_cast<std::byte*>(output.mutable_data_ptr()) + rank() * bytes_of(input);
  TT_CHECK(!overlap(*dense, output) || dense->const_data_ptr() == own_part,
           "the input may be output[rank()] but not overlap the output otherwise");
  impl_->all_gather(dense->const_data_ptr(), output.mutable_data_ptr(), bytes_of(input));
}

void ProcessGroup::gather(const at::Tensor& input, at::Tensor& output, int root) const {
  check_input(input);
  check_rank(root, size());
  const bool receives = rank() == root;
  if (receives) {
    prepare_output(output);
    check_parts(input, output, size());
  }
  impl_->sequence().record("gather", bytes_of(input), dtype_of(input));
  if (input.numel() == 0) return;
  const auto dense = input.expect_contiguous();
  TT_CHECK(!receives || !overlap(*dense, output), "input and output overlap");
  impl_->gather(dense->const_data_ptr(), receives ? output.mutable_data_ptr() : nullptr,
                bytes_of(input), root);
}

void ProcessGroup::reduce_scatter(const at::Tensor& input, at::Tensor& output, ReduceOp op) const {
  check_input(input);
  prepare_output(output);
  check_parts(output, input, size());
  check_reducible(input);
  impl_->sequence().record(op == ReduceOp::kSum ? "reduce_scatter sum" : "reduce_scatter max",
                           bytes_of(output), dtype_of(output));
  if (output.numel() == 0) return;
  const auto dense = input.expect_contiguous();
  // An output inside the input would be overwritten before every rank has read it.
  at::Tensor result = overlap(*dense, output) ? at::empty_like(output) : output;
  impl_->reduce_scatter(dense->const_data_ptr(), result.mutable_data_ptr(), elements_of(output),
                        op);
  if (!result.is_same(output)) {
    std::memcpy(output.mutable_data_ptr(), result.const_data_ptr(), bytes_of(output));
  }
}

void ProcessGroup::broadcast(at::Tensor& tensor, int root) const {
  prepare_output(tensor);
  check_rank(root, size());
  impl_->sequence().record("broadcast", bytes_of(tensor), dtype_of(tensor));
  if (tensor.numel() == 0) return;
  impl_->broadcast(tensor.mutable_data_ptr(), bytes_of(tensor), root);
}

void ProcessGroup::send(const at::Tensor& tensor, int destination, int tag) const {
  check_input(tensor);
  check_rank(destination, size());
  TT_CHECK(destination != rank() && tag >= 0, "to itself, or a negative tag");
  const auto dense = tensor.expect_contiguous();
  impl_->send(dense->const_data_ptr(), bytes_of(tensor), destination, tag);
}

void ProcessGroup::receive(at::Tensor& tensor, int source, int tag) const {
  prepare_output(tensor);
  check_rank(source, size());
  TT_CHECK(source != rank() && tag >= 0, "from itself, or a negative tag");
  impl_->receive(tensor.mutable_data_ptr(), bytes_of(tensor), source, tag);
}

void ProcessGroup::barrier() const {
  impl_->sequence().record("barrier", 0, kBytes);
  impl_->barrier();
}

Work ProcessGroup::gather_bytes(std::span<const std::byte> input,
                                std::span<const std::size_t> counts, std::span<std::byte> output,
                                int root) const {
  check_rank(root, size());
  TT_CHECK_EQ(counts.size(), static_cast<std::size_t>(size()));
  TT_CHECK_EQ(counts[rank()], input.size());
  const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  if (rank() == root) TT_CHECK_EQ(output.size(), total);
  impl_->sequence().record("gather_bytes", total, kBytes);
  return Work(impl_->gather_bytes(input, counts, output, root));
}

void ProcessGroup::gather_all_bytes(std::span<const std::byte> input,
                                    std::span<const std::size_t> counts,
                                    std::span<std::byte> output, int root, std::size_t most) const {
  const std::size_t piece = std::max<std::size_t>(most / counts.size(), 1);
  const std::size_t longest = *std::ranges::max_element(counts);
  if (longest <= piece) {
    gather_bytes(input, counts, output, root).wait();
    return;
  }
  std::vector<std::size_t> now(counts.size());
  std::vector<std::byte> together;
  for (std::size_t from = 0; from < longest; from += piece) {
    std::ranges::transform(counts, now.begin(), [&](std::size_t count) {
      return count > from ? std::min(piece, count - from) : 0;
    });
    const std::size_t own = now[static_cast<std::size_t>(rank())];
    const auto part = own > 0 ? input.subspan(from, own) : std::span<const std::byte>();
    if (rank() == root) together.resize(std::reduce(now.begin(), now.end()));
    gather_bytes(part, now, together, root).wait();
    if (rank() != root) continue;
    std::size_t begin = 0, taken = 0;
    for (std::size_t r = 0; r < now.size(); begin += counts[r], taken += now[r], ++r) {
      std::copy_n(together.begin() + static_cast<std::ptrdiff_t>(taken), now[r],
                  output.begin() + static_cast<std::ptrdiff_t>(begin + from));
    }
  }
}

Work ProcessGroup::broadcast_bytes(std::span<std::byte> bytes, int root) const {
  check_rank(root, size());
  impl_->sequence().record("broadcast_bytes", bytes.size(), kBytes);
  return Work(impl_->broadcast_bytes(bytes, root));
}

}  // namespace tt::comm
