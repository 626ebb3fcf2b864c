#include "src/record/writer.h"

#include <SQLiteCpp/Transaction.h>
#include <SQLiteCpp/VariadicBind.h>

#include <filesystem>
#include <system_error>

#include "src/record/schema.h"
#include "tensor_tracer/protocol/json_members.h"

namespace tt::record {
namespace {

using nlohmann::json;
using protocol::natural;
using protocol::text_of;

constexpr std::uint64_t kScalarBytes = 48;  // approximate size of a scalar
// A log of this part of the limit is too long, while a reader keeps it from being used again.
constexpr std::uint64_t kMaxLogPart = 4;

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string shape_text(const protocol::RecordHeader& header) {
  json shape = json::array();
  for (std::size_t dim = 0; dim < header.ndim && dim < header.shape.size(); ++dim)
    shape.push_back(header.shape[dim]);
  return shape.dump();
}

// SQLite stores NaN as NULL.
template <typename... Values>
void run(SQLite::Statement& statement, const Values&... values) {
  SQLite::bind(statement, values...);
  statement.exec();
  statement.reset();
}

}  // namespace

Writer::Writer(SQLite::Database& database, std::uint64_t max_bytes)
    : database_(database),
      bound_(database, max_bytes),
      frame_(database,
             "INSERT INTO frames VALUES (NULL,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"),
      scalar_(database, "INSERT OR REPLACE INTO scalars VALUES (?,?,?,?,?)"),
      event_(database, "INSERT INTO events VALUES (NULL,?,?,?,?,?,?,?)"),
      run_(database, "INSERT OR REPLACE INTO runs VALUES (?,?,?,?,?,?)"),
      point_(database, "INSERT OR REPLACE INTO points VALUES (?,?,?,?)") {}

std::uint64_t Writer::write(const std::vector<Item>& items) {
  const bool takes_frames = !is_log_full();
  std::uint64_t left_out = 0;
  SQLite::Transaction transaction(database_, SQLite::TransactionBehavior::IMMEDIATE);
  try {
    for (const Item& item : items)
      if (const auto* frame = std::get_if<FrameItem>(&item))
        left_out += takes_frames && insert(*frame) ? 0 : 1;
      else
        std::visit([this](const auto& one) { insert(one); }, item);
    transaction.commit();
  } catch (...) {
    bound_.start_again();
    throw;
  }
  return left_out;
}

// Each read sees the file as it was at the read's start, so the log must hold all changes since
// then.
bool Writer::is_log_full() {
  if (bound_.max_bytes() == 0) return false;
  std::error_code absent;
  const std::uintmax_t bytes = std::filesystem::file_size(database_.getFilename() + "-wal", absent);
  if (absent || bytes <= bound_.max_bytes() / kMaxLogPart) return false;
  SQLite::Statement checkpoint(database_, "PRAGMA wal_checkpoint(PASSIVE)");
  checkpoint.executeStep();
  const std::int64_t pages = checkpoint.getColumn(1).getInt64();
  const std::int64_t copied = checkpoint.getColumn(2).getInt64();
  return copied < pages;
}

std::uint64_t Writer::used_bytes() { return record::used_bytes(database_); }

bool Writer::insert(const FrameItem& item) {
  const protocol::RecordHeader& h = item.header;
  bound_.set_step(as_signed(h.run), as_signed(h.step));
  if (!bound_.make_room_for_record(item.bytes->size())) return false;
  const auto code = [](auto name) { return static_cast<int>(name); };
  constexpr int kRecord = 21;
  // The bytes are not copied: they must live until the statement has run.
  frame_.bindNoCopy(kRecord, item.bytes->data(), static_cast<int>(item.bytes->size()));
  run(frame_, as_signed(h.run), as_signed(h.sequence), as_signed(h.step), h.micro_batch,
      code(h.phase), h.plan, h.entry, h.prompt_set, h.first_row, h.point, h.layer,
      code(h.direction), h.tensor_rank, h.pipeline_rank, h.data_rank, code(h.dtype),
      code(h.compressor), shape_text(h), h.features, as_signed(h.time));
  return true;
}

void Writer::insert(const StepItem& item) {
  bound_.make_room(item.values.size() * kScalarBytes);
  bound_.add_scalars(item.values.size());
  for (const auto& [name, value] : item.values)
    run(scalar_, as_signed(item.run), as_signed(item.step), name, value, as_signed(item.time_ns));
}

void Writer::insert(const Event& item) {
  const std::string detail = dump(item.detail);
  bound_.make_room(detail.size());
  run(event_, as_signed(item.run), as_signed(item.time_ns), as_signed(item.step), item.kind,
      item.session, item.who, detail);
}

void Writer::insert(const RunItem& item) {
  const json& facts = item.facts;
  const std::string id = text_of(facts, "id");
  const std::int64_t number = as_signed(run_number(id));
  run(run_, number, id, text_of(facts, "name"), text_of(facts, "host"),
      text_of(facts, "start_time"), dump(facts));
  for (const json& point : protocol::member(facts, "points"))
    if (const auto flag = natural(point, "flag"))
      run(point_, number, as_signed(*flag), text_of(point, "name"), dump(point));
}

void Writer::insert(const KeepItem& /*item*/) {
  bound_.lift();
  mark_as_kept(database_, kKeptRecords);
}

}  // namespace tt::record
