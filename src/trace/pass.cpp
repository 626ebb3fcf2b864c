#include "tensor_tracer/trace/pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/trace/captured.h"
#include "src/trace/token_means.h"
#include "src/trace/tracer_core.h"
#include "tensor_tracer/base/check.h"
#include "tensor_tracer/base/hash.h"
#include "tensor_tracer/base/thread.h"

namespace tt::trace {

namespace {

// The first line of the message, without the stack trace that libtorch adds below it.
std::string reason_of(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

PassMemory take_memory(TracerCore& core) {
  if (core.unused.empty()) return PassMemory(core.group, core.runtime.get());
  PassMemory memory = std::move(core.unused.back());
  core.unused.pop_back();
  memory.values.clear();
  memory.gradients.clear();
  return memory;
}

}  // namespace

/// The state of a pass that captures something. Tensor hooks hold it by weak_ptr.
struct Pass::State final : EndedPass, std::enable_shared_from_this<Pass::State> {
  State(std::shared_ptr<TracerCore> of, const ForwardScope& about)
      : core_(std::move(of)),
        plan_(core_->plan),
        wanted_(core_->wanted_in(about)),
        scope_(about),
        memory_(take_memory(*core_)) {
    memory_.entry_seconds.assign(plan_->plan().entries.size(), 0.0);
  }

  // When an exception unwinds the stack, the other ranks may have posted no gather. Do not wait
  // then.
  ~State() override {
    if (std::uncaught_exceptions() > 0) return;
    try {
      for (ForwardBuffer* buffer : {&memory_.values, &memory_.gradients})
        if (buffer->is_pending()) buffer->finish_gather();
      core_->unused.push_back(std::move(memory_));
    } catch (const std::exception&) {
      // Drop this memory; no later pass uses it.
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void set_text(const PassText& text) { text_ = text; }

  using Make = std::function<at::Tensor(const at::Tensor&)>;

  /// `failure`: the error while `local` was computed; empty: no error.
  void capture_values(const points::PlaceKey& place, const at::Tensor& local,
                      const std::string& failure = "") noexcept {
    if (stage_ != Stage::kForward) return;
    for_each_entry(place, /*gradient=*/false, [&](std::size_t entry) {
      const at::Tensor taken = taken_by(entry, local);
      std::optional<Slot> slot = plan_->slot_for(entry, place.layer, taken, text_);
      if (slot) write(memory_.values, memory_.values.add(std::move(*slot)), taken, {}, failure);
    });
  }

  /// Watches the gradient of `from`, or the tensor that `make` computes from that gradient. `like`
  /// has the sizes and dtype of the watched tensor.
  void watch_gradients(const points::PlaceKey& place, const at::Tensor& like,
                       const at::Tensor& from, const Make& make) noexcept {
    for_each_entry(
        place, /*gradient=*/true,
        [&](std::size_t entry) { watch_gradient(entry, place.layer, like, from, make); });
  }

  void make_and_capture(const points::PlaceKey& place, at::IntArrayRef sizes, at::ScalarType dtype,
                        const std::function<at::Tensor()>& make) {
    if (stage_ != Stage::kForward) return;
    at::Tensor local;
    std::string failure;
    double seconds = 0;
    try {
      const base::CpuTimer timer(core_->seconds.all), own(seconds);
      const at::NoGradGuard no_grad;
      local = make();
    } catch (const std::exception& error) {
      // The other ranks expect this rank's bytes, so the slots are added and marked as failed.
      local = at::empty(sizes, at::TensorOptions(dtype).device(at::kMeta));
      failure = reason_of(error);
      for_each_entry(place, /*gradient=*/false,
                     [&](std::size_t entry) { plan_->switch_off(entry, failure); });
    }
    for_each_entry(place, /*gradient=*/false,
                   [&](std::size_t entry) { memory_.entry_seconds[entry] += seconds; });
    capture_values(place, local, failure);
  }

  std::int64_t rows_wanted(const points::PlaceKey& place, std::int64_t batch, bool gradient) const {
    if (stage_ != Stage::kForward && !gradient) return 0;
    std::int64_t rows = 0;
    for (const std::size_t entry : plan_->entries_of(place.row)) {
      if (!takes(entry, place, gradient)) continue;
      if (stage_ != Stage::kForward && !find_unwatched(entry, place.layer)) continue;
      rows = std::max(rows, std::min(batch, plan_->plan().entries[entry].end_row.value_or(batch)));
    }
    return rows;
  }

  TokenWindow wanted(const points::PlaceKey& place, std::int64_t batch, std::int64_t tokens) const {
    TokenWindow all;
    if (stage_ != Stage::kForward) return all;
    for (const std::size_t entry : plan_->entries_of(place.row)) {
      if (!takes(entry, place, /*gradient=*/false)) continue;
      const PlanEntry& one = plan_->plan().entries[entry];
      const Window rows = row_window(one, batch), window = token_window(one, tokens);
      if (rows.size() > 0 && window.size() > 0) all.include({rows.end, window.first, window.end});
    }
    return all;
  }

  /// True if the pass must still watch gradients of a recomputation.
  bool end_forward() {
    if (stage_ != Stage::kForward) return false;
    const base::CpuTimer timer(core_->seconds.all);
    if (const int other_rank = find_other_layout(); other_rank > 0) {
      give_up(other_rank);
      return false;
    }
    stage_ = Stage::kBackward;
    post(memory_.values);
    return std::ranges::find(is_watched_, false) != is_watched_.end();
  }

  void end_backward() {
    TT_CHECK(stage_ != Stage::kForward, "end_backward() comes before end_forward()");
    if (stage_ == Stage::kOver) return;
    stage_ = Stage::kOver;
    const base::CpuTimer timer(core_->seconds.all);
    if (core_->runtime == nullptr) complete(memory_.values);
    if (!memory_.gradients.slots().empty()) post(memory_.gradients);
  }

  void finish() {
    if (core_->runtime == nullptr) return deliver();
    stage_ = Stage::kOver;  // for the hooks of a backward that comes too late
    core_->ended.push_back(shared_from_this());
    core_->deliver(Tracer::kMaxEnded);
  }

  bool is_ready() const override {
    return (!memory_.values.is_pending() || memory_.values.is_ready()) &&
           (!memory_.gradients.is_pending() || memory_.gradients.is_ready());
  }

  void deliver() override {
    const base::CpuTimer timer(core_->seconds.all);
    complete(memory_.values);
    complete(memory_.gradients);
  }

 private:
  template <typename Act>
  void for_each_entry(const points::PlaceKey& place, bool gradient, const Act& act) noexcept {
    const base::CpuTimer timer(core_->seconds.all);
    for (const std::size_t entry : plan_->entries_of(place.row)) {
      if (!takes(entry, place, gradient)) continue;
      try {
        act(entry);
      } catch (const std::exception& error) {
        plan_->switch_off(entry, reason_of(error));
      }
    }
  }

  at::Tensor taken_by(std::size_t entry, const at::Tensor& local) {
    const MeanOver over = plan_->plan().entries[entry].mean_over;
    if (over == MeanOver::kNothing) return local;
    const base::CpuTimer timer(memory_.entry_seconds[entry]);
    return token_means(over, local, text_);
  }

  bool takes(std::size_t entry, const points::PlaceKey& place, bool gradient) const {
    return Demand::has(wanted_, entry) && plan_->plan().entries[entry].gradient == gradient &&
           plan_->takes(entry, place.layer, scope_);
  }

  // The ranks compare the layouts of both buffers at the end of the forward pass. So a gradient
  // that appears only in a recomputation gets its slot during the forward.
  void watch_gradient(std::size_t entry, int layer, const at::Tensor& like, const at::Tensor& from,
                      const Make& make) {
    const bool is_forward = stage_ == Stage::kForward;
    if (!from.requires_grad() && !(is_forward && scope_.recomputes)) return;
    const auto index =
        is_forward ? reserve_gradient(entry, layer, like) : find_unwatched(entry, layer);
    if (!index || !from.requires_grad()) return;
    is_watched_[*index] = true;
    from.register_hook([weak = weak_from_this(), index = *index, make](const at::Tensor& gradient) {
      if (const auto state = weak.lock()) state->write_gradient(index, gradient, make);
    });
  }

  std::optional<std::size_t> reserve_gradient(std::size_t entry, int layer,
                                              const at::Tensor& like) {
    std::optional<Slot> slot = plan_->slot_for(entry, layer, like, {});
    if (!slot) return std::nullopt;
    const std::size_t index = memory_.gradients.add(std::move(*slot));
    memory_.gradients.mark(index, ForwardBuffer::Outcome::kUnreached);
    is_watched_.push_back(false);
    return index;
  }

  std::optional<std::size_t> find_unwatched(std::size_t entry, int layer) const {
    const std::vector<Slot>& slots = memory_.gradients.slots();
    for (std::size_t i = 0; i < slots.size(); ++i)
      if (slots[i].entry == entry && slots[i].layer == layer && !is_watched_[i]) return i;
    return std::nullopt;
  }

  void write(ForwardBuffer& buffer, std::size_t index, const at::Tensor& local, const Make& make,
             const std::string& failure) {
    const Slot& slot = buffer.slots()[index];
    try {
      const base::CpuTimer timer(memory_.entry_seconds[slot.entry]);
      const at::NoGradGuard no_grad;
      const at::Tensor numbers = make ? make(local) : local;
      buffer.write_part(index, numbers.device(), [&](std::byte* part) {
        plan_->pack(slot, buffer.own_rank(), numbers, part);
      });
    } catch (const std::exception& error) {
      buffer.mark_failed(index, failure.empty() ? reason_of(error) : failure);
      throw;
    }
    using Outcome = ForwardBuffer::Outcome;
    buffer.mark(index, took_too_long(slot.entry) ? Outcome::kTookTooLong : Outcome::kWritten);
  }

  void write_gradient(std::size_t index, const at::Tensor& gradient, const Make& make) noexcept {
    if (stage_ == Stage::kOver) return;
    const base::CpuTimer timer(core_->seconds.all);
    try {
      write(memory_.gradients, index, gradient, make, "");
    } catch (const std::exception& error) {
      plan_->switch_off(memory_.gradients.slots()[index].entry, reason_of(error));
    }
  }

  bool took_too_long(std::size_t entry) const {
    return memory_.entry_seconds[entry] > core_->context.limits.max_entry_seconds;
  }

  // The first rank whose buffers, of both directions, have another layout than rank 0's; 0: all
  // layouts agree. This exchange of eight bytes per rank runs in every pass: a rank knows only its
  // own layout, so it cannot know that all ranks have a layout which was compared before.
  int find_other_layout() const {
    const comm::ProcessGroup& group = core_->group;
    if (group.size() == 1) return 0;
    const auto own = static_cast<std::int64_t>(
        base::mix(memory_.values.layout_hash(), memory_.gradients.layout_hash()));
    const auto options = at::device(at::kCPU).dtype(at::kLong);
    at::Tensor all = at::empty({group.size()}, options);
    group.all_gather(at::full({1}, own, options), all);
    const auto* hashes = all.const_data_ptr<std::int64_t>();
    const auto* other = std::find_if(hashes, hashes + group.size(),
                                     [hashes](std::int64_t hash) { return hash != hashes[0]; });
    return other == hashes + group.size() ? 0 : static_cast<int>(other - hashes);
  }

  void give_up(int other_rank) {
    stage_ = Stage::kOver;
    for (const ForwardBuffer* buffer : {&memory_.values, &memory_.gradients}) {
      for (const Slot& slot : buffer->slots()) {
        plan_->switch_off(slot.entry,
                          "tensor ranks 0 and " + std::to_string(other_rank) +
                              " disagree about the bytes of a pass, which is not gathered; "
                              "this is a defect of Tensor Tracer, please report it");
      }
    }
  }

  void post(ForwardBuffer& buffer) {
    const base::CpuTimer timer(core_->seconds.gather);
    buffer.start_gather();
  }

  void complete(ForwardBuffer& buffer) {
    if (!buffer.is_pending()) return;
    {
      const base::CpuTimer timer(core_->seconds.gather);
      buffer.finish_gather();
    }
    if (core_->sink == nullptr || core_->group.rank() != 0) return;
    const base::CpuTimer timer(core_->seconds.encode);
    std::string message;
    for (const Slot& slot : buffer.slots())
      if (!plan_->is_switched_off(slot.entry)) append_record(message, buffer, slot);
    if (!message.empty()) core_->sink->send_records(std::move(message));
  }

  void append_record(std::string& message, const ForwardBuffer& buffer, const Slot& slot) {
    const ForwardBuffer::Outcome outcome = buffer.outcome(slot);
    if (outcome == ForwardBuffer::Outcome::kUnreached) return;
    if (outcome == ForwardBuffer::Outcome::kFailed) {
      plan_->switch_off(slot.entry, buffer.failure(slot));
      return;
    }
    try {
      const base::CpuTimer timer(memory_.entry_seconds[slot.entry]);
      core_->writer.append(message, plan_->plan(), scope_, slot, buffer.parts_of(slot),
                           buffer.joined(slot));
    } catch (const std::exception& error) {
      plan_->switch_off(slot.entry, reason_of(error));
    }
    if (outcome == ForwardBuffer::Outcome::kTookTooLong || took_too_long(slot.entry)) {
      plan_->switch_off(slot.entry, "it took more than " +
                                        std::to_string(core_->context.limits.max_entry_seconds) +
                                        " s of CPU time in one pass; take less of it");
    }
  }

  enum class Stage { kForward, kBackward, kOver };

  const std::shared_ptr<TracerCore> core_;
  const std::shared_ptr<ActivePlan> plan_;
  const std::uint64_t wanted_;  // entries, as in Demand
  const ForwardScope scope_;
  PassMemory memory_;
  PassText text_;
  Stage stage_ = Stage::kForward;
  std::vector<bool> is_watched_;  // by gradient slot: true if it has a tensor hook
};

Pass::Pass(std::shared_ptr<TracerCore> core, const ForwardScope& scope)
    : state_(std::make_shared<State>(std::move(core), scope)), armed_(true) {}
Pass::Pass(Pass&& other) noexcept
    : state_(std::move(other.state_)), armed_(std::exchange(other.armed_, false)) {}
Pass& Pass::operator=(Pass&& other) noexcept {
  state_ = std::move(other.state_);
  armed_ = std::exchange(other.armed_, false);
  return *this;
}
Pass::~Pass() = default;

void Pass::set_text(const PassText& text) {
  if (state_ != nullptr) state_->set_text(text);
}

void Pass::capture_watched(const points::PlaceKey& place, const at::Tensor& local) noexcept {
  state_->capture_values(place, local);
  state_->watch_gradients(place, local, local, {});
}

void Pass::make_and_capture(const points::PlaceKey& place, at::IntArrayRef sizes,
                            at::ScalarType dtype, const std::function<at::Tensor()>& make) {
  state_->make_and_capture(place, sizes, dtype, make);
}

void Pass::capture_derived_gradient(const points::PlaceKey& place, const DerivedGradient& made) {
  const at::Tensor like = at::empty(made.sizes, at::TensorOptions(made.dtype).device(at::kMeta));
  state_->watch_gradients(place, like, made.from, made.make);
}

void TokenWindow::include(const TokenWindow& other) {
  if (other.rows == 0) return;
  first_token = rows == 0 ? other.first_token : std::min(first_token, other.first_token);
  end_token = std::max(end_token, other.end_token);
  rows = std::max(rows, other.rows);
}

TokenWindow Pass::find_wanted(const points::PlaceKey& place, std::int64_t batch,
                              std::int64_t tokens) const {
  return state_->wanted(place, batch, tokens);
}

std::int64_t Pass::rows_wanted(const points::PlaceKey& place, std::int64_t batch,
                               bool gradient) const {
  return armed_ ? state_->rows_wanted(place, batch, gradient) : 0;
}

void Pass::end_forward() {
  if (armed_) armed_ = state_->end_forward();
}

void Pass::end_backward() {
  if (state_ == nullptr) return;
  armed_ = false;
  state_->end_backward();
}

void Pass::finish() {
  if (state_ == nullptr) return;
  armed_ = false;
  state_->finish();
  state_ = nullptr;
}

}  // namespace tt::trace
