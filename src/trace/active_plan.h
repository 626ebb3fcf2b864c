#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/trace/forward_buffer.h"
#include "tensor_tracer/trace/pass.h"
#include "tensor_tracer/trace/plan.h"
#include "tensor_tracer/trace/trace_sink.h"

namespace tt::trace {

/// A plan in force: how its entries are packed, and which entries were switched off. All passes
/// that began with this plan share the object. Thread: the thread that runs the step.
class ActivePlan {
 public:
  /// `context` and `sink` outlive the object. `sink` may be null.
  ActivePlan(std::shared_ptr<const Plan> plan, const PlanContext& context, TraceSink* sink);

  const Plan& plan() const { return *plan_; }
  /// True if one of the `wanted` entries, as in Demand, takes the pass.
  bool takes(const ForwardScope& scope, std::uint64_t wanted) const;
  bool takes(std::size_t entry, int layer, const ForwardScope& scope) const;
  /// Entries of a row of the place table.
  const std::vector<std::size_t>& entries_of(std::size_t row) const { return entries_of_row_[row]; }

  /// The entries that keep a list of tokens over the run, as in Demand: each pass counts for them.
  std::uint64_t keeping_entries() const { return keeping_; }

  /// The space that the capture of `local` takes in the buffers of all ranks; nullopt if the
  /// entry's rows or tokens lie outside `local`. `text` as in Pass::set_text.
  std::optional<Slot> slot_for(std::size_t entry, int layer, const at::Tensor& local,
                               const PassText& text);
  /// Writes the part of rank `rank` of the tensor axis. `local` is the shard of that rank, `part`
  /// is on its device.
  void pack(const Slot& slot, std::size_t rank, const at::Tensor& local, std::byte* part) const;

  /// Switches the entry off and reports the reason to the viewers.
  void switch_off(std::size_t entry, const std::string& why) noexcept;
  bool is_switched_off(std::size_t entry) const { return switched_off_[entry]; }
  /// Entries that were switched off since the last call.
  std::vector<std::size_t> take_switched_off();

 private:
  // The packing for the last shape of an entry. A new shape makes a new packing.
  struct CachedPacking {
    std::vector<std::int64_t> sizes;
    bool is_double = false;
    std::shared_ptr<const LogicalShape> logical;
    std::shared_ptr<const Packing> packing;
  };

  const points::Place& place_of(const PlanEntry& entry) const;
  const CachedPacking& packing_for(std::size_t entry, const at::Tensor& local);

  const std::shared_ptr<const Plan> plan_;
  const PlanContext& context_;
  TraceSink* const sink_;
  std::vector<std::vector<std::size_t>> entries_of_row_;
  std::uint64_t keeping_ = 0;
  std::vector<CachedPacking> packings_;  // by entry
  std::vector<bool> switched_off_;       // by entry
  std::vector<std::size_t> newly_off_;
};

}  // namespace tt::trace
