#include "tensor_tracer/comm/process_group.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <sstream>
#include <vector>

#include "src/comm/group_impl.h"
#include "src/comm/local/single_group.h"
#include "src/comm/operation.h"
#include "src/comm/reduce.h"
#include "tensor_tracer/base/check.h"

namespace tt::comm {
namespace {

using detail::GroupImpl;
using detail::Operation;

constexpr int kBytes = -1;  // replaces the dtype if an operation only moves bytes

int dtype_of(const at::Tensor& tensor) { return static_cast<int>(tensor.scalar_type()); }

std::string describe(const at::Tensor& tensor) {
  std::ostringstream out;
  out << tensor.scalar_type() << tensor.sizes() << " on " << tensor.device();
  return out.str();
}

void check_input(const GroupImpl& group, const at::Tensor& tensor) {
  TT_CHECK(tensor.defined(), "an undefined tensor");
  TT_CHECK(tensor.layout() == at::kStrided && !tensor.is_complex() && !tensor.is_quantized(),
           describe(tensor) + ": dense tensors of real numbers are carried");
  TT_CHECK(group.supports(tensor.device()), describe(tensor) + ": backend " +
                                                std::string(group.backend()) +
                                                " carries no tensors of this device");
}

/// Checks a tensor before a write and marks it as written for autograd.
void prepare_output(const GroupImpl& group, const at::Tensor& tensor) {
  check_input(group, tensor);
  TT_CHECK(tensor.is_contiguous(), describe(tensor) + " is written and must be contiguous");
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

void check_bytes(const at::Tensor& tensor) {
  TT_CHECK(tensor.scalar_type() == at::kByte && tensor.dim() == 1 && tensor.is_contiguous(),
           describe(tensor) + ": bytes travel as contiguous uint8 tensors of one dim");
}

/// Checks that `whole` has the size of one `part` for every rank.
void check_parts(const at::Tensor& part, const at::Tensor& whole, int size) {
  TT_CHECK(part.scalar_type() == whole.scalar_type() && part.device() == whole.device() &&
               part.numel() * size == whole.numel(),
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

const std::byte* begin_of(const at::Tensor& tensor) {
  return static_cast<const std::byte*>(tensor.const_data_ptr());
}

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  return begin_of(a) < begin_of(b) + b.nbytes() && begin_of(b) < begin_of(a) + a.nbytes();
}

std::int64_t sum_of(std::span<const std::size_t> counts) {
  return static_cast<std::int64_t>(std::reduce(counts.begin(), counts.end()));
}

// A group of one rank waits for nobody.
void record_part(GroupImpl& whole, GroupImpl& part, const std::string& name) {
  const std::string path = whole.log()->groups()[whole.log_index()].path + "/" + name + "." +
                           std::to_string(whole.count_split());
  if (part.size() == 1) return;
  std::vector<int> ranks(static_cast<std::size_t>(part.size()));
  const int own = whole.log()->rank();
  at::Tensor all = host_bytes(std::as_bytes(std::span(ranks)));
  part.all_gather(host_bytes(std::as_bytes(std::span(&own, 1))), all);
  part.record_into(*whole.log(), whole.log()->add_group({name, path, std::move(ranks)}));
}

at::Tensor part_of(const at::Tensor& bytes, std::size_t begin, std::size_t count) {
  return bytes.narrow(0, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(count));
}

}  // namespace

namespace detail {

void copy_elements(const at::Tensor& input, const at::Tensor& output) {
  if (input.const_data_ptr() == output.const_data_ptr()) return;
  const at::AutoDispatchBelowADInplaceOrView unseen;
  output.view(input.sizes()).copy_(input);
}

}  // namespace detail

at::Tensor host_bytes(std::span<const std::byte> bytes) {
  return at::from_blob(const_cast<std::byte*>(bytes.data()),
                       {static_cast<std::int64_t>(bytes.size())}, at::kByte);
}

ProcessGroup::ProcessGroup() : impl_(detail::make_single_group()) {}
ProcessGroup::ProcessGroup(std::shared_ptr<detail::GroupImpl> impl) : impl_(std::move(impl)) {}

int ProcessGroup::rank() const { return impl_->rank(); }
int ProcessGroup::size() const { return impl_->size(); }
std::string_view ProcessGroup::backend() const { return impl_->backend(); }
bool ProcessGroup::supports(at::Device device) const { return impl_->supports(device); }

ProcessGroup ProcessGroup::split(int color, int key, const std::string& name) const {
  TT_CHECK(color >= 0, "color " + std::to_string(color) + " must be 0 or more");
  const Operation operation(*impl_, {"split", 0, kBytes});
  ProcessGroup part(impl_->split(color, key));
  if (impl_->log() != nullptr) record_part(*impl_, *part.impl_, name);
  return part;
}

void ProcessGroup::record_into(CollectiveLog& log) const {
  if (size() == 1) return;
  std::vector<int> ranks(static_cast<std::size_t>(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  impl_->record_into(log, log.add_group({"world", "world", std::move(ranks)}));
}

CollectiveLog* ProcessGroup::log() const { return impl_->log(); }

void ProcessGroup::all_reduce(at::Tensor& tensor, ReduceOp op) const {
  prepare_output(*impl_, tensor);
  check_reducible(tensor);
  const Operation operation(*impl_, {op == ReduceOp::kSum ? "all_reduce sum" : "all_reduce max",
                                     tensor.nbytes(), dtype_of(tensor)});
  if (tensor.numel() == 0) return;
  impl_->all_reduce(tensor, op);
}

void ProcessGroup::all_gather(const at::Tensor& input, at::Tensor& output) const {
  check_input(*impl_, input);
  prepare_output(*impl_, output);
  check_parts(input, output, size());
  const Operation operation(*impl_, {"all_gather", input.nbytes(), dtype_of(input)});
  if (input.numel() == 0) return;
  const auto dense = input.expect_contiguous();
  const std::byte* own_part = begin_of(output) + rank() * input.nbytes();
  TT_CHECK(!overlap(*dense, output) || begin_of(*dense) == own_part,
           "the input may be output[rank()] but not overlap the output otherwise");
  impl_->all_gather(*dense, output);
}

void ProcessGroup::gather(const at::Tensor& input, at::Tensor& output, int root) const {
  check_input(*impl_, input);
  check_rank(root, size());
  const bool receives = rank() == root;
  if (receives) {
    prepare_output(*impl_, output);
    check_parts(input, output, size());
  }
  const Operation operation(*impl_, {"gather", input.nbytes(), dtype_of(input)});
  if (input.numel() == 0) return;
  const auto dense = input.expect_contiguous();
  TT_CHECK(!receives || !overlap(*dense, output), "input and output overlap");
  impl_->gather(*dense, output, root);
}

void ProcessGroup::reduce_scatter(const at::Tensor& input, at::Tensor& output, ReduceOp op) const {
  check_input(*impl_, input);
  prepare_output(*impl_, output);
  check_parts(output, input, size());
  check_reducible(input);
  const Operation operation(
      *impl_, {op == ReduceOp::kSum ? "reduce_scatter sum" : "reduce_scatter max", output.nbytes(),
               dtype_of(output)});
  if (output.numel() == 0) return;
  const auto dense = input.expect_contiguous();
  // If the output lies inside the input, writing it would overwrite data that other ranks still
  // read.
  at::Tensor result = overlap(*dense, output) ? at::empty_like(output) : output;
  impl_->reduce_scatter(*dense, result, op);
  if (!result.is_same(output)) detail::copy_elements(result, output);
}

void ProcessGroup::broadcast(at::Tensor& tensor, int root) const {
  prepare_output(*impl_, tensor);
  check_rank(root, size());
  const Operation operation(*impl_, {"broadcast", tensor.nbytes(), dtype_of(tensor)});
  if (tensor.numel() == 0) return;
  impl_->broadcast(tensor, root);
}

void ProcessGroup::send(const at::Tensor& tensor, int destination, int tag) const {
  check_input(*impl_, tensor);
  check_rank(destination, size());
  TT_CHECK(destination != rank() && tag >= 0, "to itself, or a negative tag");
  const auto dense = tensor.expect_contiguous();
  const Operation operation(*impl_, {"send", tensor.nbytes(), dtype_of(tensor), destination});
  impl_->send(*dense, destination, tag);
}

void ProcessGroup::receive(at::Tensor& tensor, int source, int tag) const {
  prepare_output(*impl_, tensor);
  check_rank(source, size());
  TT_CHECK(source != rank() && tag >= 0, "from itself, or a negative tag");
  const Operation operation(*impl_, {"receive", tensor.nbytes(), dtype_of(tensor), source});
  impl_->receive(tensor, source, tag);
}

void ProcessGroup::barrier() const {
  const Operation operation(*impl_, {"barrier", 0, kBytes});
  impl_->barrier();
}

Work ProcessGroup::gather_bytes(const at::Tensor& input, std::span<const std::size_t> counts,
                                const at::Tensor& output, int root) const {
  check_rank(root, size());
  check_input(*impl_, input);
  check_bytes(input);
  TT_CHECK_EQ(counts.size(), static_cast<std::size_t>(size()));
  TT_CHECK_EQ(counts[rank()], input.nbytes());
  const auto total = static_cast<std::size_t>(sum_of(counts));
  if (rank() == root) {
    prepare_output(*impl_, output);
    check_bytes(output);
    TT_CHECK_EQ(output.nbytes(), total);
    TT_CHECK_EQ(input.device(), output.device());
    TT_CHECK(!overlap(input, output), "input and output overlap");
  }
  const detail::OpenCall call = detail::begin_call(*impl_, {"gather_bytes", total, kBytes});
  const detail::Waiting posting(call);
  return Work(impl_->gather_bytes(input, counts, output, root), call);
}

void ProcessGroup::gather_all_bytes(const at::Tensor& input, std::span<const std::size_t> counts,
                                    const at::Tensor& output, int root, std::size_t most) const {
  const std::size_t chunk = std::max<std::size_t>(most / counts.size(), 1);
  const std::size_t longest = *std::ranges::max_element(counts);
  if (longest <= chunk) {
    gather_bytes(input, counts, output, root).wait();
    return;
  }
  std::vector<std::size_t> now(counts.size());
  at::Tensor together;
  for (std::size_t from = 0; from < longest; from += chunk) {
    std::ranges::transform(counts, now.begin(), [&](std::size_t count) {
      return count > from ? std::min(chunk, count - from) : 0;
    });
    const std::size_t own = now[static_cast<std::size_t>(rank())];
    if (rank() == root) together = at::empty({sum_of(now)}, output.options());
    gather_bytes(part_of(input, own > 0 ? from : 0, own), now, together, root).wait();
    if (rank() != root) continue;
    std::size_t begin = 0, taken = 0;
    for (std::size_t r = 0; r < now.size(); begin += counts[r], taken += now[r], ++r) {
      if (now[r] == 0) continue;
      detail::copy_elements(part_of(together, taken, now[r]),
                            part_of(output, begin + from, now[r]));
    }
  }
}

Work ProcessGroup::broadcast_bytes(const at::Tensor& bytes, int root) const {
  check_rank(root, size());
  prepare_output(*impl_, bytes);
  check_bytes(bytes);
  const detail::OpenCall call =
      detail::begin_call(*impl_, {"broadcast_bytes", bytes.nbytes(), kBytes});
  const detail::Waiting posting(call);
  return Work(impl_->broadcast_bytes(bytes, root), call);
}

void ProcessGroup::verify_sequence() const {
  if constexpr (detail::kHashSequence) {
    std::vector<detail::Sequence::State> states(size());
    at::Tensor all = host_bytes(std::as_bytes(std::span(states)));
    impl_->all_gather(host_bytes(std::as_bytes(std::span(&impl_->sequence().state(), 1))), all);
    const bool same = std::all_of(states.begin(), states.end(),
                                  [&](const auto& state) { return state == states[0]; });
    TT_CHECK(same, "the ranks called different collectives: " + detail::describe(states));
  }
}

}  // namespace tt::comm
