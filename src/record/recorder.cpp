#include "tensor_tracer/record/recorder.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "src/record/item_queue.h"
#include "src/record/schema.h"
#include "src/record/writer.h"
#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/base/thread.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/record/query_thread.h"
#include "tensor_tracer/record/recording.h"

namespace tt::record {
namespace {

using nlohmann::json;

constexpr int kCloseMilliseconds = 200;  // the time to wait for a reader

base::Error cannot_record(const std::string& path, const std::string& why) {
  return {.code = "cannot_record",
          .message = "this recording cannot be written: " + why,
          .where = path,
          .remedy = "give another directory, or move the file away"};
}

constexpr std::size_t kTransactionBytes = std::size_t{8} << 20U;
constexpr std::size_t kLeastTransactionBytes = std::size_t{64} << 10U;

// A small file has small transactions, so that the log beside it is small too.
std::size_t transaction_bytes(std::uint64_t max_bytes) {
  return max_bytes == 0
             ? kTransactionBytes
             : std::clamp<std::size_t>(max_bytes / 16, kLeastTransactionBytes, kTransactionBytes);
}

constexpr std::uint64_t kLogBytes = std::uint64_t{64} << 20U;
constexpr std::uint64_t kPageBytes = 32768;
constexpr std::uint64_t kLogPages = 1000;  // SQLite's default for copying the log to the file

void limit_log(SQLite::Database& database, std::uint64_t max_bytes) {
  const std::uint64_t part = max_bytes / 8;
  const std::uint64_t bytes = max_bytes == 0 ? kLogBytes : std::min(part, kLogBytes);
  const std::uint64_t pages =
      max_bytes == 0 ? kLogPages : std::clamp<std::uint64_t>(part / kPageBytes, 16, kLogPages);
  database.exec("PRAGMA journal_size_limit = " + std::to_string(bytes));
  database.exec("PRAGMA wal_autocheckpoint = " + std::to_string(pages));
}

void set_up(SQLite::Database& database) {
  const auto wal = [&] {
    return database.execAndGet("PRAGMA journal_mode = WAL").getString() == "wal";
  };
  bool shared = false;
  try {
    shared = wal();
  } catch (const SQLite::Exception&) {
  }
  if (!shared) {
    // There is no shared memory here, as on a network file system: only this process may open the
    // file.
    database.exec("PRAGMA locking_mode = EXCLUSIVE");
    wal();
  }
  database.exec("PRAGMA synchronous = NORMAL");
}

bool is_exclusive(SQLite::Database& database) {
  return database.execAndGet("PRAGMA locking_mode").getString() == "exclusive";
}

// Sets the permissions before SQLite opens the file: SQLite gives the files beside it the same
// permissions.
base::Status make_private(const std::string& path) {
  using std::filesystem::perms;
  if (!std::filesystem::exists(path)) return base::write_private_file(path, "");
  if (std::filesystem::is_regular_file(path))
    std::filesystem::permissions(path, perms::owner_read | perms::owner_write);
  return {};
}

/// Device and inode; nothing if there is no such file.
using Identity = std::optional<std::pair<dev_t, ino_t>>;

Identity identity_of(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 ? Identity({facts.st_dev, facts.st_ino}) : Identity();
}

// An error concerns the file; a failure of the machine is an exception.
base::Result<std::shared_ptr<SQLite::Database>> open_prepared(const RecorderOptions& options) {
  try {
    if (base::Status made = make_private(options.path); !made.ok()) return made.error();
    auto database = std::make_shared<SQLite::Database>(
        options.path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, kBusyMilliseconds, options.vfs);
    // A record of 48 KiB uses two such pages; with the default size it uses twelve.
    database->exec("PRAGMA page_size = " + std::to_string(kPageBytes));
    set_up(*database);
    if (base::Status prepared = prepare_schema(*database); !prepared.ok()) return prepared.error();
    return database;
  } catch (const SQLite::Exception& error) {
    if (error.getErrorCode() == SQLITE_CORRUPT || error.getErrorCode() == SQLITE_NOTADB)
      return not_a_recording(error.what());
    throw;
  }
}

base::Result<std::shared_ptr<SQLite::Database>> open_for_writing(const RecorderOptions& options) {
  try {
    auto database = open_prepared(options);
    if (!database) return cannot_record(options.path, database.error().message);
    return database;
  } catch (const std::exception& error) {
    return cannot_record(options.path, error.what());
  }
}

// Marks the file as kept, and follows the mark of an earlier recorder.
base::Status follow_marks(SQLite::Database& database, RecorderOptions& options) {
  try {
    const std::string known = kept(database);
    if (known == kKeptRecords) {
      options.takes_traced = true;
      options.max_bytes = 0;
    } else if (options.keep && known.empty()) {
      mark_as_kept(database, kKeptRun);
    }
    limit_log(database, options.max_bytes);
    return {};
  } catch (const std::exception& error) {
    return cannot_record(options.path, error.what());
  }
}

}  // namespace

/// The caller's thread fills `queue_`; the writer's thread empties it. `counters_` are the queue's
/// counters, guarded by its mutex.
class Recorder::Impl {
 public:
  Impl(RecorderOptions options, std::shared_ptr<SQLite::Database> database)
      : options_(std::move(options)),
        identity_(identity_of(options_.path)),
        max_bytes_(options_.max_bytes),
        takes_traced_(options_.takes_traced),
        queue_(options_.queue_bytes, transaction_bytes(options_.max_bytes)),
        database_(std::move(database)),
        exclusive_(is_exclusive(*database_)),
        thread_([this] { run(); }) {
    if (!exclusive_) queries_.emplace(options_.path);
  }

  void set_run(const json& facts) {
    names_.clear();
    for (const json& point : protocol::member(facts, "points"))
      if (const auto flag = protocol::natural(point, "flag"))
        names_[static_cast<std::uint16_t>(*flag)] = protocol::text_of(point, "name");
    queue_.push(RunItem{facts});
  }

  bool wants(const protocol::RecordHeader& header) const {
    const RecordFilter& filter = options_.filter;
    if (!takes_traced_ && header.prompt_set == 0) return false;
    if (filter.every > 1 && header.step % filter.every != 0) return false;
    if (filter.layers && header.layer != 0 && !filter.layers->contains(header.layer)) return false;
    const auto name = names_.find(header.point);
    return !filter.points || (name != names_.end() && filter.points->contains(name->second));
  }

  void read(QueryThread::Query query) {
    if (exclusive_)
      queue_.push_query(std::move(query));
    else if (queries_)
      queries_->post(std::move(query));
  }

  void keep_all() {
    takes_traced_ = true;
    max_bytes_ = 0;
    queue_.push(KeepItem{});
  }

  void finish() {
    if (!thread_.joinable()) return;
    queries_.reset();
    queue_.end();
    thread_.join();
  }

  bool takes_traced() const { return takes_traced_; }
  const RecordFilter& filter() const { return options_.filter; }
  std::uint64_t max_bytes() const { return max_bytes_; }

  ItemQueue& queue() { return queue_; }

 private:
  void run() {
    base::set_thread_name("tt-record");
    try {
      Writer writer(*database_, options_.max_bytes);
      Recording recording(database_);
      while (auto work = queue_.wait(options_.commit_interval)) {
        write(writer, *work);
        for (const QueryThread::Query& query : work->queries) run_query(query, recording);
      }
    } catch (const std::exception& error) {
      stop(error.what());
    }
    queue_.refuse_queries();
    close();
  }

  void write(Writer& writer, const ItemQueue::Work& work) {
    if (work.items.empty()) return;
    while (!try_to_write(writer, work)) {
    }
  }

  // False if another program has locked the file: the write may be tried again.
  bool try_to_write(Writer& writer, const ItemQueue::Work& work) {
    try {
      const std::uint64_t left_out = writer.write(work.items);
      queue_.written(work, left_out, writer.used_bytes());
      check_file();
    } catch (const SQLite::Exception& error) {
      if (error.getErrorCode() == SQLITE_BUSY && !queue_.is_ending()) {
        spdlog::warn("recording_waits: another program has locked {}", options_.path);
        return false;
      }
      queue_.lost(work);
      stop(error.what());
    }
    return true;
  }

  // A file without a name can still be written, but it is lost when it is closed.
  void check_file() {
    if (is_removed_ || identity_of(options_.path) == identity_) return;
    is_removed_ = true;
    raise({.code = "recording_removed",
           .message =
               "the recording was deleted or replaced while it is written: all of it is lost "
               "when the run ends",
           .where = options_.path,
           .remedy = "the run goes on; record the next one to a directory that nobody clears"});
  }

  // The content of the file stays readable; nothing more is written.
  void stop(const std::string& why) {
    if (queue_.stop()) {
      raise({.code = "recording_stopped",
             .message = "recording stopped: " + why,
             .where = options_.path,
             .remedy = "the run goes on; free the disk and start a new recording"});
    }
  }

  void raise(const base::Error& error) {
    spdlog::error("{}", base::to_string(error));
    if (options_.on_alarm) options_.on_alarm(error);
  }

  // Leaves one file that can be read from a folder without write permission. A reader that is still
  // open keeps the log beside the file, but only a reader in the middle of a read keeps content in
  // the log.
  void close() {
    try {
      database_->setBusyTimeout(kCloseMilliseconds);
      database_->exec("PRAGMA wal_checkpoint(TRUNCATE)");
      database_->exec("PRAGMA journal_mode = DELETE");
    } catch (const SQLite::Exception& error) {
      spdlog::info("the recording stays in WAL mode: {}", error.what());
    }
    database_.reset();
  }

  const RecorderOptions options_;
  const Identity identity_;               // of the file that is open
  bool is_removed_ = false;               // and the alarm was raised
  std::atomic<std::uint64_t> max_bytes_;  // 0: no limit
  bool takes_traced_;
  std::map<std::uint16_t, std::string> names_;  // of points, by flag
  ItemQueue queue_;
  std::shared_ptr<SQLite::Database> database_;
  const bool exclusive_;
  std::optional<QueryThread> queries_;
  std::thread thread_;
};

Recorder::Recorder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Recorder::~Recorder() { finish(); }

base::Result<std::unique_ptr<Recorder>> Recorder::open(RecorderOptions options) {
  auto database = open_for_writing(options);
  if (!database) return database.error();
  if (const base::Status marked = follow_marks(*database.value(), options); !marked.ok())
    return marked.error();
  auto impl = std::make_unique<Impl>(std::move(options), std::move(database).value());
  return std::unique_ptr<Recorder>(new Recorder(std::move(impl)));
}

void Recorder::set_run(const json& facts) { impl_->set_run(facts); }

void Recorder::add_record(const protocol::RecordHeader& header, base::SharedBytes bytes) {
  if (impl_->wants(header)) impl_->queue().push(FrameItem{header, std::move(bytes)});
}

void Recorder::add_step(std::uint64_t run, const json& params, std::uint64_t time_ns) {
  const auto step = protocol::natural(params, "step");
  if (!step) return;
  StepItem item{.run = run, .step = *step, .time_ns = time_ns, .values = {}};
  for (const auto& [name, value] : params.items())
    if (const auto number = protocol::number_of(value); number && name != "step")
      item.values.emplace_back(name, *number);
  impl_->queue().push(std::move(item));
}

void Recorder::keep_all() { impl_->keep_all(); }
bool Recorder::takes_traced() const { return impl_->takes_traced(); }
const RecordFilter& Recorder::filter() const { return impl_->filter(); }
std::uint64_t Recorder::max_bytes() const { return impl_->max_bytes(); }
void Recorder::add_event(Event event) { impl_->queue().push(std::move(event)); }
void Recorder::read(std::function<void(Recording&)> query) { impl_->read(std::move(query)); }
RecorderCounters Recorder::counters() const {
  RecorderCounters counters = impl_->queue().counters();
  counters.max_bytes = impl_->max_bytes();
  return counters;
}
void Recorder::finish() { impl_->finish(); }

std::uint64_t run_number(const std::string& id) {
  constexpr int kHex = 16;
  std::uint64_t number = 0;
  const auto [end, code] = std::from_chars(id.data(), id.data() + id.size(), number, kHex);
  return code == std::errc() && end == id.data() + id.size() && id.size() == kHex ? number : 0;
}

std::string run_id(std::uint64_t number) {
  return number == 0 ? "" : fmt::format("{:016x}", number);
}

}  // namespace tt::record
