#include "src/trace/record_writer.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "src/trace/wire.h"

namespace tt::trace {
namespace {

std::uint64_t nanoseconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace

protocol::RecordHeader RecordWriter::header_for(const Plan& plan, const ForwardScope& scope,
                                                const Slot& slot,
                                                const std::vector<std::int64_t>& shape) {
  const PlanEntry& entry = plan.entries[slot.entry];
  const points::Place& point = context_.places->rows()[entry.point];
  protocol::RecordHeader header;
  header.run = identity_.run;
  header.sequence = ++sequence_;
  header.step = static_cast<std::uint64_t>(scope.step);
  header.plan = plan.number;
  header.entry = static_cast<std::uint32_t>(slot.entry);
  header.micro_batch =
      static_cast<std::uint32_t>(scope.batch * context_.micro_batches + scope.micro_batch);
  header.prompt_set = scope.prompt_set;
  header.first_row = static_cast<std::uint32_t>(scope.first_row + entry.first_row);
  header.point = point.number;
  header.layer = static_cast<std::uint16_t>(slot.layer);
  header.tensor_rank = static_cast<std::uint16_t>(identity_.coordinates.tensor);
  header.pipeline_rank = static_cast<std::uint16_t>(identity_.coordinates.pipeline);
  header.data_rank = static_cast<std::uint16_t>(identity_.coordinates.data);
  header.phase =
      scope.phase == Phase::kTrain ? protocol::RecordPhase::kTrain : protocol::RecordPhase::kEval;
  header.direction =
      entry.gradient ? protocol::RecordDirection::kGradient : protocol::RecordDirection::kValue;
  header.dtype = entry.dtype;
  header.compressor = entry.compressor->code;
  header.ndim = static_cast<std::uint8_t>(shape.size());
  std::ranges::transform(shape, header.shape.begin(),
                         [](std::int64_t size) { return static_cast<std::uint32_t>(size); });
  if (slot.logical != nullptr) header.features = static_cast<std::uint32_t>(slot.logical->features);
  header.time = nanoseconds_since_1970();
  return header;
}

void RecordWriter::append(std::string& message, const Plan& plan, const ForwardScope& scope,
                          const Slot& slot, const std::vector<const std::byte*>& parts,
                          const std::byte* joined) {
  if (slot.packing == nullptr) {
    protocol::append_record(message, header_for(plan, scope, slot, slot.shape),
                            {parts.front(), slot.leader_bytes});
    return;
  }
  const std::int64_t count = c10::multiply_integers(slot.shape);
  const std::int64_t columns = slot.shape.empty() ? 1 : slot.shape.back();
  if (numbers_.size() < static_cast<std::size_t>(count))
    numbers_.resize(static_cast<std::size_t>(count));
  const PlanEntry& entry = plan.entries[slot.entry];
  const int row = context_.places->rows()[entry.point].hidden_state.value_or(slot.layer);
  const auto type = slot.is_double ? at::kDouble : at::kFloat;
  if (joined == nullptr)
    slot.packing->join({row, slot.targets}, parts, reinterpret_cast<std::byte*>(numbers_.data()));
  else
    std::memcpy(numbers_.data(), joined, static_cast<std::size_t>(count) * elementSize(type));
  if (entry.compressor->kept.units > 0) return append_kept(message, plan, scope, slot);
  encode(at::from_blob(numbers_.data(), {count}, type), columns, entry.dtype, payload_);
  protocol::append_record(message, header_for(plan, scope, slot, slot.shape), payload_);
}

// Adds the joined numbers of this pass to the list of the run, and sends the list.
void RecordWriter::append_kept(std::string& message, const Plan& plan, const ForwardScope& scope,
                               const Slot& slot) {
  const PlanEntry& entry = plan.entries[slot.entry];
  KeptTokens& kept = kept_of(entry, slot.layer);
  const auto type = slot.is_double ? at::kDouble : at::kFloat;
  const at::Tensor values = at::from_blob(numbers_.data(), slot.shape, type).to(at::kDouble);
  if (slot.tokens.defined()) {
    kept.add({values.const_data_ptr<double>(), slot.shape[0], slot.shape[1], entry.first_row,
              slot.logical->first_line},
             scope, slot.tokens);
  }
  const std::vector<std::int64_t> shape = entry.compressor->kept.shape();
  at::Tensor list = at::empty(shape, at::device(at::kCPU).dtype(at::kDouble));
  kept.write(list.mutable_data_ptr<double>());
  encode(list.flatten(), shape.back(), entry.dtype, payload_);
  protocol::append_record(message, header_for(plan, scope, slot, shape), payload_);
}

// A list goes on when the plan changes around its entry. The lists are few: a plan has 64 entries.
KeptTokens& RecordWriter::kept_of(const PlanEntry& entry, int layer) {
  constexpr std::size_t kMaxLists = 4096;
  const auto [first_token, end_token] =
      entry.tokens.value_or(std::pair<std::int64_t, std::int64_t>{0, -1});
  const nlohmann::json what = {entry.point,         layer,
                               entry.gradient,      entry.prompt_set,
                               entry.first_row,     entry.end_row.value_or(-1),
                               first_token,         end_token,
                               entry.every,         entry.in_train,
                               entry.in_eval,       entry.all_eval_forwards,
                               entry.micro_batches, entry.compressor->form};
  const std::string key = what.dump();
  if (!kept_.contains(key) && kept_.size() >= kMaxLists) kept_.clear();
  return kept_.try_emplace(key, entry.compressor->kept).first->second;
}

}  // namespace tt::trace
