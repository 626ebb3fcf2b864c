#include "src/comm/mpi/mpi_group.h"

#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "src/comm/mpi/communicator.h"
#include "src/comm/mpi/transfer.h"
#include "src/comm/single/single_group.h"
#include "tensor_tracer/base/check.h"

namespace tt::comm::detail {
namespace {

int to_count(std::size_t bytes) {
  TT_CHECK(bytes <= std::numeric_limits<int>::max(),
           std::to_string(bytes) + " bytes in one asynchronous operation; MPI carries 2147483647");
  return static_cast<int>(bytes);
}

/// Owns a request and the count arrays that MPI reads until it is done.
class MpiWork final : public WorkImpl {
 public:
  explicit MpiWork(std::shared_ptr<Communicator> comm) : comm_(std::move(comm)) {}

  bool test() override {
    int done = 0;
    check_mpi(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test", comm_->get());
    return done != 0;
  }

  void start_gather(std::span<const std::byte> input, std::span<const std::size_t> counts,
                    std::span<std::byte> output, int root) {
    to_count(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
    int begin = 0;
    for (const std::size_t count : counts) {
      counts_.push_back(to_count(count));
      begins_.push_back(begin);
      begin += counts_.back();
    }
    check_mpi(MPI_Igatherv(input.data(), to_count(input.size()), MPI_BYTE, output.data(),
                           counts_.data(), begins_.data(), MPI_BYTE, root, comm_->get(), &request_),
              "MPI_Igatherv", comm_->get());
  }

  void start_broadcast(std::span<std::byte> bytes, int root) {
    check_mpi(
        MPI_Ibcast(bytes.data(), to_count(bytes.size()), MPI_BYTE, root, comm_->get(), &request_),
        "MPI_Ibcast", comm_->get());
  }

 private:
  const std::shared_ptr<Communicator> comm_;  // outlives the group while this is pending
  std::vector<int> counts_;
  std::vector<int> begins_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

class MpiGroup final : public GroupImpl {
 public:
  explicit MpiGroup(std::shared_ptr<Communicator> comm) : comm_(std::move(comm)) {
    check_mpi(MPI_Comm_rank(comm_->get(), &rank_), "MPI_Comm_rank", comm_->get());
    check_mpi(MPI_Comm_size(comm_->get(), &size_), "MPI_Comm_size", comm_->get());
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::shared_ptr<GroupImpl> split(int color, int key) override;

  void all_reduce(void* data, Elements elements, ReduceOp op) override {
    mpi_all_reduce(active(), data, elements, op);
  }
  void all_gather(const void* input, void* output, std::size_t bytes) override {
    mpi_all_gather(active(), input, output, bytes);
  }
  void gather(const void* input, void* output, std::size_t bytes, int root) override {
    mpi_gather(active(), input, output, bytes, root);
  }
  void reduce_scatter(const void* input, void* output, Elements elements, ReduceOp op) override {
    mpi_reduce_scatter(active(), input, output, elements, op);
  }
  void broadcast(void* data, std::size_t bytes, int root) override {
    mpi_broadcast(active(), data, bytes, root);
  }
  void send(const void* data, std::size_t bytes, int destination, int tag) override {
    mpi_send(active(), data, bytes, destination, tag);
  }
  void receive(void* data, std::size_t bytes, int source, int tag) override {
    mpi_receive(active(), data, bytes, source, tag);
  }
  void barrier() override { check_mpi(MPI_Barrier(active()), "MPI_Barrier", comm_->get()); }
  std::unique_ptr<WorkImpl> gather_bytes(std::span<const std::byte> input,
                                         std::span<const std::size_t> counts,
                                         std::span<std::byte> output, int root) override {
    active();
    auto work = std::make_unique<MpiWork>(comm_);
    work->start_gather(input, counts, output, root);
    return work;
  }
  std::unique_ptr<WorkImpl> broadcast_bytes(std::span<std::byte> bytes, int root) override {
    active();
    auto work = std::make_unique<MpiWork>(comm_);
    work->start_broadcast(bytes, root);
    return work;
  }

 private:
  /// The communicator, while there is MPI.
  MPI_Comm active() const {
    TT_CHECK(mpi_is_active(), "a group was used after its World had ended");
    return comm_->get();
  }

  const std::shared_ptr<Communicator> comm_;  // shared with the pending operations
  int rank_ = 0;
  int size_ = 0;
};

std::shared_ptr<GroupImpl> MpiGroup::split(int color, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(active(), color, key, &part), "MPI_Comm_split", comm_->get());
  return make_mpi_group(part);
}

}  // namespace

std::shared_ptr<GroupImpl> make_mpi_group(MPI_Comm comm) {
  auto owner = std::make_shared<Communicator>(comm);
  int size = 0;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size", comm);
  if (size == 1) return make_single_group();
  return std::make_shared<MpiGroup>(std::move(owner));
}

}  // namespace tt::comm::detail
