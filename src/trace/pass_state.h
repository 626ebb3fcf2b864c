#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/trace/active_plan.h"
#include "src/trace/forward_buffer.h"
#include "src/trace/record_writer.h"
#include "tensor_tracer/trace/tracer.h"

namespace tt::trace {

/// What a pass writes into; the next pass takes it over.
struct PassMemory {
  explicit PassMemory(const comm::ProcessGroup& group) : values(group), gradients(group) {}
  ForwardBuffer values, gradients;
  std::vector<double> entry_seconds;  // CPU time in this pass, by entry
};

/// What the passes of one tracer share.
struct TracerCore {
  TracerCore(PlanContext about, const TracerIdentity& identity, const comm::ProcessGroup& tensor,
             TraceSink* out)
      : context(std::move(about)),
        is_watched(identity.coordinates.data == 0),
        group(tensor),
        sink(out),
        writer(context, identity),
        plan(std::make_shared<ActivePlan>(std::make_shared<Plan>(), context, out)) {}

  const PlanContext context;
  const bool is_watched;  // the data replica of the leader
  const comm::ProcessGroup group;
  TraceSink* const sink;
  RecordWriter writer;
  std::shared_ptr<ActivePlan> plan;  // of the passes that begin from now on
  std::vector<PassMemory> unused;    // of passes that are over
  TracerSeconds seconds;
};

/// A pass of which something is captured. Tensor hooks hold it weakly.
struct Pass::State : std::enable_shared_from_this<Pass::State> {
  State(std::shared_ptr<TracerCore> of, const ForwardScope& about);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// `failure`: why the numbers of `local` could not be made; empty: they were.
  void capture_values(const points::PlaceKey& place, const at::Tensor& local,
                      const std::string& failure = "") noexcept;
  using Make = std::function<at::Tensor(const at::Tensor&)>;
  /// The gradient of `from`, or what `make` makes of it, which is like `like`.
  void watch_gradients(const points::PlaceKey& place, const at::Tensor& like,
                       const at::Tensor& from, const Make& make) noexcept;
  void make_and_capture(const points::PlaceKey& place, at::IntArrayRef sizes, at::ScalarType dtype,
                        const std::function<at::Tensor()>& make);
  std::int64_t rows_wanted(const points::PlaceKey& place, std::int64_t batch, bool gradient) const;
  /// True: gradients of a recomputation are still to be watched.
  bool end_forward();
  void end_backward();
  void finish();

 private:
  template <typename Act>
  void for_each_entry(const points::PlaceKey& place, bool gradient, const Act& act) noexcept;
  bool takes(std::size_t entry, const points::PlaceKey& place, bool gradient) const;
  void watch_gradient(std::size_t entry, int layer, const at::Tensor& like, const at::Tensor& from,
                      const Make& make);
  std::optional<std::size_t> reserve_gradient(std::size_t entry, int layer, const at::Tensor& like);
  std::optional<std::size_t> find_unwatched(std::size_t entry, int layer) const;
  void write(ForwardBuffer& buffer, std::size_t index, const at::Tensor& local, const Make& make,
             const std::string& failure);
  void write_gradient(std::size_t index, const at::Tensor& gradient, const Make& make) noexcept;
  bool took_too_long(std::size_t entry) const;
  int find_other_layout() const;
  void give_up(int other_rank);
  void post(ForwardBuffer& buffer);
  void complete(ForwardBuffer& buffer);
  void append_record(std::string& message, const ForwardBuffer& buffer, const Slot& slot);

  enum class Stage { kForward, kBackward, kOver };

  const std::shared_ptr<TracerCore> core;
  const std::shared_ptr<ActivePlan> plan;
  const ForwardScope scope;
  PassMemory memory;
  Stage stage = Stage::kForward;
  std::vector<bool> is_watched;  // by slot of the gradients: it has its tensor hook
};

}  // namespace tt::trace
