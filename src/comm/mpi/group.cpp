#include "src/comm/mpi/group.h"

#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "src/comm/local/single_group.h"
#include "src/comm/mpi/communicator.h"
#include "src/comm/mpi/shared_collectives.h"
#include "src/comm/mpi/shared_segment.h"
#include "src/comm/mpi/transfer.h"
#include "tensor_tracer/base/check.h"

namespace tt::comm::detail {
namespace {

// For more bytes, MPI with its single copy is as fast as shared memory
// (tests/multirank/comm_bench.cpp).
constexpr std::size_t kLargestSharedGather = std::size_t{1} << 20;

int to_count(std::size_t bytes) {
  TT_CHECK(bytes <= std::numeric_limits<int>::max(),
           std::to_string(bytes) + " bytes in one asynchronous operation; MPI carries 2147483647");
  return static_cast<int>(bytes);
}

/// Owns a request and all memory that MPI reads and writes until the request is done.
class MpiWork final : public WorkImpl {
 public:
  explicit MpiWork(std::shared_ptr<Communicator> comm) : comm_(std::move(comm)) {}

  bool test() override {
    int done = 0;
    check_mpi(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test", comm_->get());
    return done != 0;
  }

  void start_gather(const at::Tensor& input, std::span<const std::size_t> counts,
                    const at::Tensor& output, int root) {
    to_count(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
    int begin = 0;
    for (const std::size_t count : counts) {
      counts_.push_back(to_count(count));
      begins_.push_back(begin);
      begin += counts_.back();
    }
    buffers_ = {input, output};
    check_mpi(MPI_Igatherv(input.const_data_ptr(), to_count(input.nbytes()), MPI_BYTE,
                           output.defined() ? output.mutable_data_ptr() : nullptr, counts_.data(),
                           begins_.data(), MPI_BYTE, root, comm_->get(), &request_),
              "MPI_Igatherv", comm_->get());
  }

  void start_broadcast(const at::Tensor& bytes, int root) {
    buffers_ = {bytes};
    check_mpi(MPI_Ibcast(bytes.mutable_data_ptr(), to_count(bytes.nbytes()), MPI_BYTE, root,
                         comm_->get(), &request_),
              "MPI_Ibcast", comm_->get());
  }

 private:
  const std::shared_ptr<Communicator> comm_;  // outlives the group while this is pending
  std::vector<at::Tensor> buffers_;
  std::vector<int> counts_;
  std::vector<int> begins_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// Uses shared memory if all ranks are on one node and shared memory is faster, else MPI.
class MpiGroup final : public GroupImpl {
 public:
  MpiGroup(std::shared_ptr<Communicator> comm, bool shared_memory)
      : comm_(std::move(comm)),
        rank_(mpi_rank(comm_->get())),
        size_(mpi_size(comm_->get())),
        shared_memory_(shared_memory) {
    if (shared_memory) shared_ = SharedSegment::create(comm_->get());
  }

  std::string_view backend() const override { return "mpi"; }
  bool supports(at::Device device) const override { return device.is_cpu(); }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::shared_ptr<GroupImpl> split(int color, int key) override {
    MPI_Comm part = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(active(), color, key, &part), "MPI_Comm_split", comm_->get());
    return make_mpi_group(part, shared_memory_);
  }

  void all_reduce(at::Tensor& tensor, ReduceOp op) override {
    const MPI_Comm comm = active();
    void* data = tensor.mutable_data_ptr();
    if (shared_) return shared_all_reduce(*shared_, data, elements_of(tensor), op);
    mpi_all_reduce(comm, data, elements_of(tensor), op);
  }
  void all_gather(const at::Tensor& input, at::Tensor& output) override {
    const MPI_Comm comm = active();
    const std::size_t bytes = input.nbytes();
    void* target = output.mutable_data_ptr();
    if (shared_ && bytes <= kLargestSharedGather)
      return shared_all_gather(*shared_, input.const_data_ptr(), target, bytes);
    mpi_all_gather(comm, input.const_data_ptr(), target, bytes);
  }
  void gather(const at::Tensor& input, at::Tensor& output, int root) override {
    void* target = rank_ == root ? output.mutable_data_ptr() : nullptr;
    mpi_gather(active(), input.const_data_ptr(), target, input.nbytes(), root);
  }
  void reduce_scatter(const at::Tensor& input, at::Tensor& output, ReduceOp op) override {
    const MPI_Comm comm = active();
    const void* source = input.const_data_ptr();
    void* target = output.mutable_data_ptr();
    const Elements elements = elements_of(output);
    if (shared_) return shared_reduce_scatter(*shared_, source, target, elements, op);
    mpi_reduce_scatter(comm, source, target, elements, op);
  }
  void broadcast(at::Tensor& tensor, int root) override {
    const MPI_Comm comm = active();
    void* data = tensor.mutable_data_ptr();
    if (shared_) return shared_broadcast(*shared_, data, tensor.nbytes(), root);
    mpi_broadcast(comm, data, tensor.nbytes(), root);
  }
  void send(const at::Tensor& tensor, int destination, int tag) override {
    mpi_send(active(), tensor.const_data_ptr(), tensor.nbytes(), destination, tag);
  }
  void receive(at::Tensor& tensor, int source, int tag) override {
    mpi_receive(active(), tensor.mutable_data_ptr(), tensor.nbytes(), source, tag);
  }
  void barrier() override {
    const MPI_Comm comm = active();
    if (shared_) return shared_->meet();
    check_mpi(MPI_Barrier(comm), "MPI_Barrier", comm);
  }
  std::unique_ptr<WorkImpl> gather_bytes(const at::Tensor& input,
                                         std::span<const std::size_t> counts,
                                         const at::Tensor& output, int root) override {
    active();
    auto work = std::make_unique<MpiWork>(comm_);
    work->start_gather(input, counts, rank_ == root ? output : at::Tensor(), root);
    return work;
  }
  std::unique_ptr<WorkImpl> broadcast_bytes(const at::Tensor& bytes, int root) override {
    active();
    auto work = std::make_unique<MpiWork>(comm_);
    work->start_broadcast(bytes, root);
    return work;
  }

 private:
  /// The communicator. Throws CheckError if MPI is not active.
  MPI_Comm active() const {
    TT_CHECK(mpi_is_active(), "a group was used after its World had ended");
    return comm_->get();
  }

  const std::shared_ptr<Communicator> comm_;  // shared with the pending operations
  const int rank_;
  const int size_;
  const bool shared_memory_;
  std::unique_ptr<SharedSegment> shared_;  // null: disabled, or not all ranks are on one node
};

}  // namespace

std::shared_ptr<GroupImpl> make_mpi_group(MPI_Comm comm, bool shared_memory) {
  auto owner = std::make_shared<Communicator>(comm);
  if (mpi_size(comm) == 1) return make_single_group();
  return std::make_shared<MpiGroup>(std::move(owner), shared_memory);
}

}  // namespace tt::comm::detail
