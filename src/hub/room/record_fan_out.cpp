#include "src/hub/room/record_fan_out.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

namespace tt::hub {
namespace {

// A worker that sends only damaged records must not fill the viewers' queues with messages.
constexpr auto kDamageInterval = std::chrono::seconds(1);

}  // namespace

void RecordFanOut::take(const Client& worker, Member& member, const SharedBytes& message,
                        Clock::time_point now) {
  member.moved = now;
  take_records(leaders_.stage_of(worker), member, message, now);
  alarms_.end_records();
  for (const auto& [viewer, state] : roster_.members()) viewer->queue().end_message(now);
}

void RecordFanOut::take_records(std::optional<std::size_t> stage, Member& member,
                                const SharedBytes& records, Clock::time_point now) {
  // Viewers check the payload's CRC: they then see the values that the leader computed.
  protocol::RecordReader reader(*records, protocol::RecordCheck::kHeader);
  while (auto record = reader.next()) {
    ++metrics_.records;
    metrics_.on_record(*record);
    if (stage && !options_.replay)  // a replay may leave out and repeat
      leaders_.on_record(*stage, record->header);
    const SharedBytes bytes = in_numbers_of_run(stage, *record, records);
    const protocol::RecordHeader& header = record->header;
    StoredRecord stored{.key = protocol::key_of(header),
                        .plan = header.plan,
                        .point = header.point,
                        .bytes = bytes};
    alarms_.take_record(*record, bytes);
    show_record(stored, now);
    audit_log_.record(header, bytes);
    run_.keep_record(std::move(stored));
  }
  if (!reader.status().ok()) notify_damage(member, reader.status().error(), now);
}

// Gives the record's point the number that the run's facts have, and returns the whole record.
SharedBytes RecordFanOut::in_numbers_of_run(std::optional<std::size_t> stage,
                                            protocol::RecordView& record,
                                            const SharedBytes& records) const {
  const std::uint16_t number = record.header.point;
  record.header.point = stage ? leaders_.point_of_run(*stage, number) : number;
  if (record.header.point == number) return records.part(record.whole);
  return std::make_shared<const std::string>(
      protocol::with_point(record.whole, record.header.point));
}

void RecordFanOut::show_record(const StoredRecord& record, Clock::time_point now) {
  for (const auto& [viewer, member] : roster_.members()) {
    if (viewer->role() == Role::kViewer && member.greeted) {
      viewer->queue().push_record(record, now);
      viewer->wake();
    }
  }
}

// Sends at most one message per worker in this interval. The next message states how many were left
// out.
void RecordFanOut::notify_damage(Member& member, const base::Error& error, Clock::time_point now) {
  ++metrics_.damaged_records;
  if (member.damage_told != Clock::time_point() && now - member.damage_told < kDamageInterval) {
    ++member.damage_untold;
    return;
  }
  member.damage_told = now;
  const std::uint64_t more = std::exchange(member.damage_untold, 0);
  const std::string since =
      more == 0 ? "" : " (" + std::to_string(more) + " more since the last message of this kind)";
  spdlog::error("damaged_record: {}: {}{}", member.session, base::to_string(error), since);
  notices_.log("error", "a record of the trainer is damaged: " + error.message + since);
}

}  // namespace tt::hub
