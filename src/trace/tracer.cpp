#include "tensor_tracer/trace/tracer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "src/trace/captured.h"
#include "src/trace/forward_buffer.h"
#include "src/trace/record_writer.h"
#include "tensor_tracer/base/check.h"
#include "tensor_tracer/base/hash.h"
#include "tensor_tracer/base/thread.h"

namespace tt::trace {
namespace {

// Without the stack that libtorch tells below the first line.
std::string reason_of(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

// The forward half of a step's watched pass, or the backward half.
struct Pass {
  explicit Pass(const comm::ProcessGroup& group) : buffer(group) {}
  ForwardScope scope;
  ForwardBuffer buffer;
  bool is_open = false;     // captures go in
  bool is_pending = false;  // its gather was posted, its records are not yet sent
};

// A packing is made once for every shape that an entry meets in turn.
struct CachedPacking {
  std::vector<std::int64_t> sizes;
  bool is_double = false;
  std::optional<LogicalShape> shape;
  std::shared_ptr<const Packing> packing;
};

}  // namespace

struct Tracer::State {
  State(PlanContext about, const TracerIdentity& who, const comm::ProcessGroup& group,
        TraceSink* out)
      : context(std::move(about)),
        writer(context, who),
        data_rank(who.coordinates.data),
        rank(static_cast<std::size_t>(group.rank())),
        tensor(group),
        sink(out),
        plan(std::make_shared<Plan>()),
        forward(group),
        backward(group) {}

  // Constant after construction.
  const PlanContext context;
  RecordWriter writer;
  const int data_rank;
  const std::size_t rank;
  const comm::ProcessGroup tensor;
  TraceSink* const sink;

  std::shared_ptr<const Plan> plan;
  std::vector<std::vector<std::size_t>> entries_of_row;
  std::vector<CachedPacking> packings;  // per entry
  std::vector<bool> switched_off;       // per entry
  std::vector<std::size_t> newly_off;
  std::vector<double> entry_seconds;  // per entry, in the passes that are open
  Pass forward, backward;
  TracerSeconds seconds;
  std::string made_wrong;  // why the tensor that is being captured has no numbers

  const points::Place& point_of(const PlanEntry& entry) const {
    return context.places->rows()[entry.point];
  }
  bool takes(std::size_t entry, int layer) const;
  const CachedPacking& packing_for(std::size_t entry, const at::Tensor& local);
  std::optional<Slot> slot_for(std::size_t entry, int layer, const at::Tensor& local);
  void write(Pass& pass, const Slot& slot, const at::Tensor& local);
  using Make = std::function<at::Tensor(const at::Tensor&)>;
  void write_timed(Pass& pass, const Slot& slot, const at::Tensor& local, const Make& make = {});
  bool took_too_long(std::size_t entry) const {
    return entry_seconds[entry] > context.limits.max_entry_seconds;
  }
  void append_record(std::string& message, const Pass& pass, const Slot& slot);
  void capture(std::size_t entry, int layer, const at::Tensor& local);
  std::size_t reserve_gradient(Slot slot);
  void capture_gradient(std::size_t entry, int layer, const at::Tensor& local);
  void capture_derived_gradient(std::size_t entry, int layer, const DerivedGradient& made);
  void write_gradient(std::size_t slot_index, const at::Tensor& gradient,
                      const Make& make) noexcept;
  int find_other_layout() const;
  void give_up_pass(int other_rank);
  void post(Pass& pass);
  void complete(Pass& pass);
  void switch_off(std::size_t entry, const std::string& why) noexcept;
};

bool Tracer::State::takes(std::size_t entry, int layer) const {
  const PlanEntry& wanted = plan->entries[entry];
  return wanted.takes_layer[static_cast<std::size_t>(layer)] && wanted.takes(forward.scope);
}

const CachedPacking& Tracer::State::packing_for(std::size_t entry, const at::Tensor& local) {
  CachedPacking& cached = packings[entry];
  const bool is_double = local.scalar_type() == at::kDouble;
  if (!std::ranges::equal(cached.sizes, local.sizes()) || cached.is_double != is_double) {
    const PlanEntry& wanted = plan->entries[entry];
    cached = {local.sizes().vec(), is_double,
              logical_shape(wanted, point_of(wanted), local.sizes(), context.tensor_ranks),
              nullptr};
    if (cached.shape) cached.packing = wanted.compressor->packing(*cached.shape, is_double);
  }
  return cached;
}

std::optional<Slot> Tracer::State::slot_for(std::size_t entry, int layer, const at::Tensor& local) {
  const PlanEntry& wanted = plan->entries[entry];
  Slot slot{.entry = entry, .layer = layer};
  if (point_of(wanted).holds_integers()) {
    const at::Tensor integers = local_integers(wanted, local);
    if (integers.numel() == 0) return std::nullopt;
    const bool is_empty = wanted.compressor->code == protocol::RecordCompressor::kEmpty;
    slot.shape = integers.sizes().vec();
    if (is_empty) slot.shape.back() = 0;
    slot.leader_bytes = is_empty ? 0 : integers.nbytes();
    return slot;
  }
  const CachedPacking& cached = packing_for(entry, local);
  if (cached.packing == nullptr) return std::nullopt;
  slot.packing = cached.packing;
  slot.shape = slot.packing->shape();
  slot.features = cached.shape->features;
  slot.is_double = cached.is_double;
  return slot;
}

void Tracer::State::write(Pass& pass, const Slot& slot, const at::Tensor& local) {
  std::byte* part = pass.buffer.own_part(slot);
  if (part == nullptr) return;
  const at::NoGradGuard no_grad;
  const PlanEntry& entry = plan->entries[slot.entry];
  if (slot.packing == nullptr) {
    copy_to_host(local_integers(entry, local), part);
    return;
  }
  slot.packing->pack(point_of(entry).hidden_state.value_or(slot.layer), rank,
                     local_numbers(entry, *packings[slot.entry].shape, local),
                     {part, slot.packing->part_bytes(rank)});
}

// Whoever made the numbers and could not is `made_wrong`.
void Tracer::State::write_timed(Pass& pass, const Slot& slot, const at::Tensor& local,
                                const Make& make) {
  try {
    const base::CpuTimer timer(entry_seconds[slot.entry]);
    write(pass, slot, make ? make(local) : local);
  } catch (const std::exception& error) {
    pass.buffer.mark_failed(slot, made_wrong.empty() ? reason_of(error) : made_wrong);
    throw;
  }
  pass.buffer.mark_written(slot, took_too_long(slot.entry));
}

void Tracer::State::capture(std::size_t entry, int layer, const at::Tensor& local) {
  std::optional<Slot> wanted = slot_for(entry, layer, local);
  if (!wanted) return;
  const Slot& slot = forward.buffer.slots()[forward.buffer.add(std::move(*wanted))];
  write_timed(forward, slot, local);
}

std::size_t Tracer::State::reserve_gradient(Slot slot) {
  const std::size_t index = backward.buffer.add(std::move(slot));
  backward.buffer.mark_unreached(backward.buffer.slots()[index]);
  backward.is_open = true;
  return index;
}

void Tracer::State::capture_gradient(std::size_t entry, int layer, const at::Tensor& local) {
  if (!local.requires_grad()) return;
  std::optional<Slot> wanted = slot_for(entry, layer, local);
  if (!wanted) return;
  const std::size_t index = reserve_gradient(std::move(*wanted));
  local.register_hook(
      [this, index](const at::Tensor& gradient) { write_gradient(index, gradient, {}); });
}

void Tracer::State::capture_derived_gradient(std::size_t entry, int layer,
                                             const DerivedGradient& made) {
  if (!made.from.requires_grad()) return;
  const at::Tensor like = at::empty(made.sizes, at::TensorOptions(made.dtype).device(at::kMeta));
  std::optional<Slot> wanted = slot_for(entry, layer, like);
  if (!wanted) return;
  const std::size_t index = reserve_gradient(std::move(*wanted));
  made.from.register_hook([this, index, make = made.make](const at::Tensor& gradient) {
    write_gradient(index, gradient, make);
  });
}

void Tracer::State::write_gradient(std::size_t slot_index, const at::Tensor& gradient,
                                   const Make& make) noexcept {
  if (!backward.is_open) return;
  const base::CpuTimer timer(seconds.all);
  const Slot& slot = backward.buffer.slots()[slot_index];
  try {
    const at::NoGradGuard no_grad;
    write_timed(backward, slot, gradient, make);
  } catch (const std::exception& error) {
    switch_off(slot.entry, reason_of(error));
  }
}

// The first rank whose buffers, of the forward and of the backward, are laid out otherwise than
// rank 0's; 0: none. Eight bytes for each pass, as the layout depends on more than the plan: on
// skipped layers, and on captures that failed.
int Tracer::State::find_other_layout() const {
  if (tensor.size() == 1) return 0;
  const auto own = static_cast<std::int64_t>(
      base::mix(forward.buffer.layout_hash(), backward.buffer.layout_hash()));
  const auto options = at::device(at::kCPU).dtype(at::kLong);
  at::Tensor all = at::empty({tensor.size()}, options);
  tensor.all_gather(at::full({1}, own, options), all);
  const auto* hashes = all.const_data_ptr<std::int64_t>();
  const auto* other = std::find_if(hashes, hashes + tensor.size(),
                                   [hashes](std::int64_t hash) { return hash != hashes[0]; });
  return other == hashes + tensor.size() ? 0 : static_cast<int>(other - hashes);
}

void Tracer::State::give_up_pass(int other_rank) {
  forward.is_open = backward.is_open = false;
  for (const Pass* pass : {&forward, &backward}) {
    for (const Slot& slot : pass->buffer.slots()) {
      switch_off(slot.entry, "tensor ranks 0 and " + std::to_string(other_rank) +
                                 " disagree about the bytes of a pass, which is not gathered; "
                                 "this is a defect of Tensor Tracer, please report it");
    }
  }
}

void Tracer::State::post(Pass& pass) {
  pass.is_open = false;
  pass.is_pending = true;
  const base::CpuTimer timer(seconds.gather);
  pass.buffer.start_gather();
}

void Tracer::State::complete(Pass& pass) {
  if (!pass.is_pending) return;
  pass.is_pending = false;
  {
    const base::CpuTimer timer(seconds.gather);
    pass.buffer.finish_gather();
  }
  if (sink == nullptr || rank != 0) return;
  const base::CpuTimer timer(seconds.encode);
  std::string message;
  for (const Slot& slot : pass.buffer.slots()) {
    if (!switched_off[slot.entry]) append_record(message, pass, slot);
  }
  if (!message.empty()) sink->send_records(std::move(message));
}

void Tracer::State::append_record(std::string& message, const Pass& pass, const Slot& slot) {
  const ForwardBuffer::Outcome outcome = pass.buffer.outcome(slot);
  if (outcome == ForwardBuffer::Outcome::kUnreached) return;
  if (outcome == ForwardBuffer::Outcome::kFailed) {
    switch_off(slot.entry, pass.buffer.failure(slot));
    return;
  }
  try {
    const base::CpuTimer timer(entry_seconds[slot.entry]);
    writer.append(message, *plan, pass.scope, slot, pass.buffer.parts_of(slot));
  } catch (const std::exception& error) {
    switch_off(slot.entry, reason_of(error));
  }
  if (outcome == ForwardBuffer::Outcome::kTookTooLong || took_too_long(slot.entry)) {
    switch_off(slot.entry, "it took more than " + std::to_string(context.limits.max_entry_seconds) +
                               " s of CPU time in one pass; take less of it");
  }
}

void Tracer::State::switch_off(std::size_t entry, const std::string& why) noexcept {
  if (switched_off[entry]) return;
  switched_off[entry] = true;
  newly_off.push_back(entry);
  if (sink == nullptr) return;
  const std::string& name = point_of(plan->entries[entry]).name;
  sink->send_event("log", {{"level", "warning"},
                           {"message", "plan entry " + std::to_string(entry) + " (" + name +
                                           ") was switched off: " + why}});
}

Tracer::Tracer(PlanContext context, const TracerIdentity& identity, const comm::ProcessGroup& group,
               TraceSink* sink)
    : state_(std::make_unique<State>(std::move(context), identity, group, sink)) {}

Tracer::~Tracer() = default;

void Tracer::set_plan(std::shared_ptr<const Plan> plan) {
  State& state = *state_;
  TT_CHECK(!armed_ && !state.forward.is_pending && !state.backward.is_pending, "a pass is open");
  state.entries_of_row.assign(state.context.places->rows().size(), {});
  for (std::size_t i = 0; i < plan->entries.size(); ++i) {
    state.entries_of_row[plan->entries[i].point].push_back(i);
  }
  state.packings.assign(plan->entries.size(), {});
  state.switched_off.assign(plan->entries.size(), false);
  state.newly_off.clear();
  state.entry_seconds.assign(plan->entries.size(), 0.0);
  state.plan = std::move(plan);
}

const Plan& Tracer::plan() const { return *state_->plan; }
const PlanContext& Tracer::context() const { return state_->context; }
std::vector<std::size_t> Tracer::take_switched_off() {
  return std::exchange(state_->newly_off, {});
}
TracerSeconds Tracer::seconds() const { return state_->seconds; }

void Tracer::begin_forward(const ForwardScope& scope) {
  State& state = *state_;
  finish();
  armed_ = state.data_rank == 0 &&
           std::ranges::any_of(state.plan->entries,
                               [&](const PlanEntry& entry) { return entry.takes(scope); });
  if (!armed_) return;
  for (Pass* pass : {&state.forward, &state.backward}) {
    pass->scope = scope;
    pass->buffer.clear();
  }
  std::ranges::fill(state.entry_seconds, 0.0);
  state.forward.is_open = true;
}

std::int64_t Tracer::rows_wanted(const points::PlaceKey& place, std::int64_t batch,
                                 bool gradient) const {
  if (!armed_) return 0;
  const State& state = *state_;
  std::int64_t rows = 0;
  for (const std::size_t entry : state.entries_of_row[place.row]) {
    if (!state.takes(entry, place.layer) || state.plan->entries[entry].gradient != gradient)
      continue;
    rows = std::max(rows, std::min(batch, state.plan->entries[entry].end_row.value_or(batch)));
  }
  return rows;
}

void Tracer::capture_watched(const points::PlaceKey& place, const at::Tensor& local) noexcept {
  State& state = *state_;
  const base::CpuTimer timer(state.seconds.all);
  for (const std::size_t entry : state.entries_of_row[place.row]) {
    if (!state.takes(entry, place.layer)) continue;
    try {
      if (state.plan->entries[entry].gradient) {
        state.capture_gradient(entry, place.layer, local);
      } else {
        state.capture(entry, place.layer, local);
      }
    } catch (const std::exception& error) {
      state.switch_off(entry, reason_of(error));
    }
  }
}

void Tracer::make_and_capture(const points::PlaceKey& place, at::IntArrayRef sizes,
                              at::ScalarType dtype, const std::function<at::Tensor()>& make) {
  State& state = *state_;
  at::Tensor local;
  try {
    const base::CpuTimer timer(state.seconds.all);
    const at::NoGradGuard no_grad;
    local = make();
  } catch (const std::exception& error) {
    // The other ranks count on this one's bytes: the slots are added, and stay unwritten.
    local = at::empty(sizes, at::TensorOptions(dtype).device(at::kMeta));
    for (const std::size_t entry : state.entries_of_row[place.row]) {
      const bool is_meant = state.takes(entry, place.layer) && !state.plan->entries[entry].gradient;
      if (is_meant) state.switch_off(entry, reason_of(error));
    }
    state.made_wrong = reason_of(error);
  }
  capture_watched(place, local);
  state.made_wrong.clear();
}

void Tracer::capture_derived_gradient(const points::PlaceKey& place, const DerivedGradient& made) {
  State& state = *state_;
  const base::CpuTimer timer(state.seconds.all);
  for (const std::size_t entry : state.entries_of_row[place.row]) {
    if (!state.takes(entry, place.layer) || !state.plan->entries[entry].gradient) continue;
    try {
      state.capture_derived_gradient(entry, place.layer, made);
    } catch (const std::exception& error) {
      state.switch_off(entry, reason_of(error));
    }
  }
}

void Tracer::end_forward() {
  if (!armed_) return;
  armed_ = false;
  const base::CpuTimer timer(state_->seconds.all);
  if (const int other_rank = state_->find_other_layout(); other_rank > 0) {
    state_->give_up_pass(other_rank);
  } else {
    state_->post(state_->forward);
  }
}

void Tracer::end_backward() {
  State& state = *state_;
  if (!state.forward.is_pending && !state.backward.is_open) return;
  const base::CpuTimer timer(state.seconds.all);
  state.complete(state.forward);
  if (state.backward.is_open) state.post(state.backward);
}

void Tracer::finish() {
  State& state = *state_;
  if (!state.forward.is_pending && !state.backward.is_pending) return;
  const base::CpuTimer timer(state.seconds.all);
  state.complete(state.forward);
  state.complete(state.backward);
}

}  // namespace tt::trace
