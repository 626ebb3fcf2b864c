#include <spdlog/spdlog.h>

#include <utility>

#include "src/hub/room.h"

namespace tt::hub {

namespace {

/// A worker that sends nothing but damage must not fill the viewers' queues with messages.
constexpr auto kDamageInterval = std::chrono::seconds(1);

}  // namespace

void Room::take_places(Client& client, Member& member, std::string_view places,
                       Clock::time_point now) {
  base::Status good;
  while (protocol::SharedReader::is_places(places)) {
    const auto blocks = member.shared->take(places);
    if (!blocks) {
      good = blocks.error();
      break;
    }
    for (const SharedBytes& records : blocks.value()) {
      metrics_.shared_bytes += records->size();
      take_records(member, records, now);
    }
    end_message(now);
  }
  if (good.ok() && !places.empty()) {
    good = base::Error{"invalid_record", "what follows the places is none", "", ""};
  }
  if (!good.ok()) {
    notify_damage(member, good.error(), now);
  }
  if (const auto taken = member.shared->told_now()) {
    send(client, protocol::encode_notification("taken", {{"bytes", *taken}}));
  }
}

void Room::take_records(Member& member, const SharedBytes& records, Clock::time_point now) {
  // The payload's CRC is the viewers' to check: they see what the leader computed.
  protocol::RecordReader reader(*records, protocol::RecordCheck::kHeader);
  while (const auto record = reader.next()) {
    ++metrics_.records;
    metrics_.on_record(*record);
    StoredRecord stored{.key = protocol::key_of(record->header),
                        .plan = record->header.plan,
                        .point = record->header.point,
                        .bytes = records.part(record->whole)};
    show_record(record->header, stored, now);
    journal_.record(record->header, stored.bytes);
    mirror_.keep_record(std::move(stored));
  }
  if (!reader.status().ok()) {
    notify_damage(member, reader.status().error(), now);
  }
}

void Room::end_message(Clock::time_point now) {
  for (const auto& [viewer, facts] : members_) {
    viewer->queue().end_message(now);
  }
}

void Room::show_record(const protocol::RecordHeader& header, const StoredRecord& record,
                       Clock::time_point now) {
  for (const auto& [viewer, facts] : members_) {
    if (viewer->role() == Role::kViewer && wants_record(facts, header)) {
      viewer->queue().push_record(record, now);
      viewer->wake();
    }
  }
}

void Room::notify_damage(Member& member, const base::Error& error, Clock::time_point now) {
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
  warn("error", "a record of the trainer is damaged: " + error.message + since);
}

}  // namespace tt::hub
