#include "tensor_tracer/trace/tracer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "src/trace/forward_buffer.h"
#include "tensor_tracer/base/check.h"
#include "tensor_tracer/protocol/record.h"
#include "tensor_tracer/trace/column_kernels.h"

namespace tt::trace {
namespace {

std::uint64_t nanoseconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// The leader's numbers in the dtype of the wire.
template <typename Number>
std::vector<std::byte> to_wire(const std::vector<Number>& numbers, WireDtype dtype) {
  const auto cast = [&]<typename Wire>(Wire) {
    std::vector<std::byte> bytes(numbers.size() * sizeof(Wire));
    auto* out = reinterpret_cast<Wire*>(bytes.data());
    std::ranges::transform(numbers, out, [](Number x) { return static_cast<Wire>(x); });
    return bytes;
  };
  if (dtype == WireDtype::kF64) return cast(double{});
  if (dtype == WireDtype::kBf16) return cast(at::BFloat16{});
  return cast(float{});
}

template <typename Number>
std::vector<std::byte> join_ranks(const ForwardBuffer& buffer, const Slot& slot, WireDtype dtype) {
  std::vector<const Number*> parts;
  for (std::size_t rank = 0; rank < slot.columns->pieces.size(); ++rank) {
    parts.push_back(reinterpret_cast<const Number*>(
        slot.bytes_of(rank) > 0 ? buffer.numbers_of(slot, rank) : nullptr));
  }
  std::vector<Number> numbers(static_cast<std::size_t>(slot.lines * slot.columns->outputs()));
  unpack_rows(*slot.columns, slot.lines, parts, numbers.data());
  return to_wire(numbers, dtype);
}

}  // namespace

struct Tracer::State {
  State(std::shared_ptr<const Catalogue> points, const TracerIdentity& who,
        const comm::ProcessGroup& group, Outlet* out)
      : catalogue(std::move(points)),
        identity(who),
        ranks(group.size()),
        rank(group.rank()),
        outlet(out),
        plan(std::make_shared<Plan>()),
        buffer(group) {}

  // Constant after construction.
  const std::shared_ptr<const Catalogue> catalogue;
  const TracerIdentity identity;
  const int ranks;
  const int rank;
  Outlet* const outlet;

  std::shared_ptr<const Plan> plan;
  std::vector<ColumnLayout> columns;  // per entry
  std::vector<bool> switched_off;     // per entry
  ForwardScope scope;
  ForwardBuffer buffer;
  bool is_pending = false;  // a forward was closed and its records not yet sent
  std::uint64_t sequence = 0;

  Slot slot_for(std::size_t entry, int layer, const at::Tensor& local) const;
  void write(const Slot& slot, const at::Tensor& local);
  protocol::RecordHeader header_for(const Slot& slot);
  void append_record(std::string& message, const Slot& slot);
  void switch_off(std::size_t entry, const std::string& why) noexcept;
};

Slot Tracer::State::slot_for(std::size_t entry, int layer, const at::Tensor& local) const {
  const PlanEntry& wanted = plan->entries[entry];
  const bool ids = catalogue->points()[wanted.point].features == 0;
  const int batch_dim = ids ? 1 : 0;
  const std::int64_t batch = local.size(batch_dim);
  const std::int64_t rows = wanted.rows == 0 ? batch : std::min(wanted.rows, batch);
  Slot slot;
  slot.entry = entry;
  slot.layer = layer;
  slot.columns = ids ? nullptr : &columns[entry];
  slot.number_bytes = local.scalar_type() == at::kDouble ? 8 : 4;
  const std::int64_t tokens = local.size(batch_dim + 1);
  slot.lines = ids ? 2 * rows * tokens : rows * tokens;
  slot.shape = ids ? std::vector<std::int64_t>{2, rows, tokens}
                   : std::vector<std::int64_t>{rows, tokens, columns[entry].outputs()};
  return slot;
}

void Tracer::State::write(const Slot& slot, const at::Tensor& local) {
  std::byte* target = buffer.own_numbers(slot);
  if (target == nullptr) return;
  const at::NoGradGuard no_grad;
  if (slot.columns == nullptr) {
    const at::Tensor ids = local.narrow(1, 0, slot.shape[1]).to(at::kInt).contiguous();
    std::memcpy(target, ids.const_data_ptr(), static_cast<std::size_t>(ids.numel()) * 4);
    return;
  }
  const bool is_double = slot.number_bytes == 8;
  const at::Tensor rows = local.detach()
                              .narrow(0, 0, slot.shape[0])
                              .to(is_double ? at::kDouble : at::kFloat)
                              .contiguous();
  const auto& pieces = slot.columns->pieces[static_cast<std::size_t>(rank)];
  if (is_double) {
    pack_rows(rows.const_data_ptr<double>(), slot.lines, rows.size(-1), pieces,
              reinterpret_cast<double*>(target));
  } else {
    pack_rows(rows.const_data_ptr<float>(), slot.lines, rows.size(-1), pieces,
              reinterpret_cast<float*>(target));
  }
}

protocol::RecordHeader Tracer::State::header_for(const Slot& slot) {
  const PlanEntry& entry = plan->entries[slot.entry];
  const PointDescription& point = catalogue->points()[entry.point];
  protocol::RecordHeader header;
  header.run = identity.run;
  header.sequence = ++sequence;
  header.step = static_cast<std::uint64_t>(scope.step);
  header.plan = plan->number;
  header.entry = static_cast<std::uint32_t>(slot.entry);
  header.micro_batch = static_cast<std::uint32_t>(scope.micro_batch);
  header.first_row = static_cast<std::uint32_t>(scope.first_row);
  header.point = static_cast<std::uint16_t>(point.flag);
  header.layer = static_cast<std::uint16_t>(slot.layer);
  header.tensor_rank = static_cast<std::uint16_t>(identity.coordinates.tensor);
  header.pipeline_rank = static_cast<std::uint16_t>(identity.coordinates.pipeline);
  header.data_rank = static_cast<std::uint16_t>(identity.coordinates.data);
  header.phase = static_cast<protocol::RecordPhase>(scope.phase);
  header.dtype = static_cast<protocol::Dtype>(entry.dtype);
  header.compressor =
      entry.tiles > 0 ? protocol::RecordCompressor::kTile : protocol::RecordCompressor::kNone;
  header.ndim = static_cast<std::uint8_t>(slot.shape.size());
  std::ranges::transform(slot.shape, header.shape.begin(),
                         [](std::int64_t size) { return static_cast<std::uint32_t>(size); });
  header.features = static_cast<std::uint32_t>(point.features);
  header.time = nanoseconds_since_1970();
  return header;
}

void Tracer::State::switch_off(std::size_t entry, const std::string& why) noexcept {
  if (switched_off[entry]) return;
  switched_off[entry] = true;
  if (outlet == nullptr) return;
  const std::string& name = catalogue->points()[plan->entries[entry].point].name;
  outlet->send_event("log", {{"level", "warning"},
                             {"message", "plan entry " + std::to_string(entry) + " (" + name +
                                             ") was switched off: " + why}});
}

Tracer::Tracer(std::shared_ptr<const Catalogue> catalogue, const TracerIdentity& identity,
               const comm::ProcessGroup& group, Outlet* outlet)
    : state_(std::make_unique<State>(std::move(catalogue), identity, group, outlet)) {}

Tracer::~Tracer() = default;

void Tracer::set_plan(std::shared_ptr<const Plan> plan) {
  TT_CHECK(!armed_ && !state_->is_pending, "a forward is open");
  State& state = *state_;
  state.columns.clear();
  for (const PlanEntry& entry : plan->entries) {
    const PointDescription& point = state.catalogue->points()[entry.point];
    state.columns.push_back(point.features == 0 ? ColumnLayout{}
                                                : make_column_layout(point.tensor, state.ranks,
                                                                     point.features, entry.tiles));
  }
  state.switched_off.assign(plan->entries.size(), false);
  state.plan = std::move(plan);
}

const Plan& Tracer::plan() const { return *state_->plan; }
const Catalogue& Tracer::catalogue() const { return *state_->catalogue; }

void Tracer::begin_forward(const ForwardScope& scope) {
  State& state = *state_;
  finish();
  const bool wanted = std::ranges::any_of(state.plan->entries, [&](const PlanEntry& entry) {
    return entry.takes(scope.step, scope.phase);
  });
  armed_ = wanted && scope.micro_batch == 0 && state.identity.coordinates.data == 0;
  if (!armed_) return;
  state.scope = scope;
  state.buffer.clear();
}

void Tracer::capture_watched(PointFlag flag, int layer, const at::Tensor& local) noexcept {
  State& state = *state_;
  const std::size_t point = state.catalogue->index_of(flag);
  for (std::size_t i = 0; i < state.plan->entries.size(); ++i) {
    const PlanEntry& entry = state.plan->entries[i];
    if (entry.point != point || !entry.takes_layer[static_cast<std::size_t>(layer)] ||
        !entry.takes(state.scope.step, state.scope.phase)) {
      continue;
    }
    const Slot& slot = state.buffer.add(state.slot_for(i, layer, local));
    try {
      state.write(slot, local);
      state.buffer.mark_written(slot);
    } catch (const std::exception& error) {
      state.switch_off(i, error.what());
    }
  }
}

void Tracer::end_forward() {
  if (!armed_) return;
  armed_ = false;
  state_->is_pending = true;
  state_->buffer.start_gather();
}

void Tracer::finish() {
  if (!state_->is_pending) return;
  state_->is_pending = false;
  state_->buffer.finish_gather();
  if (state_->outlet != nullptr && state_->rank == 0) send_records();
}

void Tracer::State::append_record(std::string& message, const Slot& slot) {
  const WireDtype dtype = plan->entries[slot.entry].dtype;
  if (slot.columns == nullptr) {
    const auto bytes = static_cast<std::size_t>(slot.lines) * slot.number_bytes;
    protocol::append_record(message, header_for(slot), {buffer.numbers_of(slot, 0), bytes});
    return;
  }
  const auto payload = slot.number_bytes == 8 ? join_ranks<double>(buffer, slot, dtype)
                                              : join_ranks<float>(buffer, slot, dtype);
  protocol::append_record(message, header_for(slot), payload);
}

void Tracer::send_records() {
  State& state = *state_;
  std::string message;
  for (const Slot& slot : state.buffer.slots()) {
    if (state.switched_off[slot.entry]) continue;
    if (!state.buffer.complete(slot)) {
      state.switch_off(slot.entry, "a rank could not capture it");
      continue;
    }
    try {
      state.append_record(message, slot);
    } catch (const std::exception& error) {
      state.switch_off(slot.entry, error.what());
    }
  }
  if (!message.empty()) state.outlet->send_records(std::move(message));
}

}  // namespace tt::trace
