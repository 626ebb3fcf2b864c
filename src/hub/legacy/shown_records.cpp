#include "src/hub/legacy/shown_records.h"

#include <algorithm>
#include <string_view>

#include "src/hub/legacy/native_plan.h"
#include "src/hub/legacy/numbers.h"

namespace tt::hub::dialect {
namespace {

using nlohmann::json;
using protocol::RecordCompressor;

// Compressors whose output is the numbers of the point's tensor, or columns that represent them.
constexpr std::array<std::string_view, 4> kShownKinds = {"none", "tile", "empty", "projection"};
constexpr std::array<RecordCompressor, 4> kCodes = {
    RecordCompressor::kNone, RecordCompressor::kTile, RecordCompressor::kEmpty,
    RecordCompressor::kProjection};

bool fits(const json& entry) {
  const json& direction = member(entry, "direction");
  const json& kind = member(member(entry, "compressor"), "kind");
  return (direction.is_null() || direction == "value") && !entry.contains("prompts") &&
         member(entry, "enabled") != false &&
         (kind.is_null() ||
          std::ranges::any_of(kShownKinds, [&](std::string_view known) { return kind == known; }));
}

std::set<std::uint32_t> entries_for(Dialect dialect, const json& entries) {
  std::set<std::uint32_t> shown;
  for (const KnownPoint& known : points_of(dialect)) {
    for (std::size_t index = 0; entries.is_array() && index < entries.size(); ++index) {
      if (entries[index].is_object() && member(entries[index], "point") == known.point &&
          fits(entries[index])) {
        shown.insert(static_cast<std::uint32_t>(index));
        break;
      }
    }
  }
  return shown;
}

}  // namespace

void ShownRecords::set_plan(const json& plan) {
  const json& number = member(plan, "number");
  number_.reset();
  if (number.is_number_integer()) number_ = number.get<std::uint32_t>();
  for (const Dialect dialect : {Dialect::kTensorTracer, Dialect::kMegaScope})
    entries_[static_cast<std::size_t>(dialect)] = entries_for(dialect, member(plan, "entries"));
}

bool ShownRecords::wants(Dialect dialect, const protocol::RecordHeader& header) const {
  const bool known_phase =
      header.phase == protocol::RecordPhase::kTrain || header.phase == protocol::RecordPhase::kEval;
  return header.plan == number_ && header.prompt_set == 0 && known_phase &&
         header.direction == protocol::RecordDirection::kValue &&
         entries_[static_cast<std::size_t>(dialect)].contains(header.entry) &&
         std::ranges::find(kCodes, header.compressor) != kCodes.end() &&
         count_numbers(header) <= kMaxNumbers;
}

bool ShownRecords::shows(Dialect dialect, std::string_view record) const {
  const auto view = protocol::read_record(record, protocol::RecordCheck::kHeader);
  return view.ok() && wants(dialect, view.value().header);
}

}  // namespace tt::hub::dialect
