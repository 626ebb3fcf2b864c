#include "tensor_tracer/checkpoint/checkpoint_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "src/checkpoint/durable_file.h"
#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/base/thread.h"

namespace tt::checkpoint {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr const char* kRemoved = ".removed-";
constexpr std::size_t kMaxListBytes = std::size_t{16} << 20U;
constexpr auto kPoll = std::chrono::milliseconds(10);
// A rank that ended does not leave a list.
constexpr auto kMaxWait = std::chrono::minutes(30);

std::string list_path(const std::string& hidden, int rank) {
  return fmt::format("{}/files_of_rank_{:05d}.json", hidden, rank);
}

json list_of(const base::Result<std::vector<FileFacts>>& files) {
  if (!files) return {{"error", {files.error().message, files.error().where}}};
  json list = json::array();
  for (const FileFacts& file : files.value()) list.push_back({file.name, file.bytes, file.crc32c});
  return {{"files", std::move(list)}};
}

base::Result<std::vector<FileFacts>> files_of(const json& list, int rank) {
  if (const auto error = list.find("error"); error != list.end()) {
    return base::Error{
        "storage", error->at(0), error->at(1),
        "rank " + std::to_string(rank) + " could not write: check the space on its disk"};
  }
  std::vector<FileFacts> files;
  for (const json& one : list.at("files")) files.push_back({one.at(0), one.at(1), one.at(2)});
  return files;
}

// A folder that other programs may read is never seen half removed.
void remove_whole(const fs::path& path) {
  std::error_code error;
  const fs::path hidden = path.parent_path() / (kRemoved + base::random_hex(4));
  fs::rename(path, hidden, error);
  fs::remove_all(error ? path : hidden, error);
}

// Those with the smallest validation loss; of equal ones, the newest.
std::set<std::string> find_best(const std::vector<std::string>& newest_first, std::int64_t count) {
  std::vector<std::pair<double, std::string>> rated;
  for (const std::string& path : newest_first) {
    const auto manifest = read_manifest(path);
    if (manifest && manifest.value().valid_loss)
      rated.emplace_back(*manifest.value().valid_loss, path);
  }
  std::ranges::stable_sort(rated, {}, &std::pair<double, std::string>::first);
  std::set<std::string> best;
  for (const auto& [loss, path] : rated)
    if (std::ssize(best) < count) best.insert(path);
  return best;
}

// The newest checkpoint has the latest time, also if the clock went back.
double time_after_all(const std::string& folder) {
  double latest = 0;
  for (const std::string& path : find_checkpoints(folder)) {
    const auto manifest = read_manifest(path);
    if (manifest) latest = std::max(latest, manifest.value().time);
  }
  return latest + 1e-3;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

CheckpointWriter::CheckpointWriter(std::string folder, int rank, int ranks, Retention retention)
    : folder_(std::move(folder)), rank_(rank), ranks_(ranks), retention_(retention) {}

CheckpointWriter::~CheckpointWriter() {
  gives_up_ = true;
  if (thread_.joinable()) thread_.join();
}

base::Result<std::string> CheckpointWriter::prepare(std::int64_t step) const {
  std::error_code error;
  for (fs::directory_iterator at(folder_, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (name.starts_with(kUnfinished) || name.starts_with(kRemoved))
      fs::remove_all(at->path(), ignored);
  }
  const std::string hidden =
      fmt::format("{}/{}{}-{}", folder_, kUnfinished, checkpoint_name(step), base::random_hex(4));
  if (::mkdir(hidden.c_str(), 0777) != 0) return storage_error(hidden, "cannot be made");
  return hidden;
}

void CheckpointWriter::start(std::string hidden, std::vector<FileContents> files,
                             Manifest manifest) {
  has_ended_ = false;
  gives_up_ = false;
  thread_ = std::thread([this, hidden = std::move(hidden), files = std::move(files),
                         manifest = std::move(manifest)]() mutable {
    base::set_thread_name("tt-checkpoint");
    try {
      result_ = save(hidden, files, std::move(manifest));
    } catch (const std::exception& error) {
      result_ = base::Error{"storage", error.what(), hidden, ""};
    }
    files.clear();
    has_ended_ = true;
  });
}

base::Result<SavedCheckpoint> CheckpointWriter::wait() {
  thread_.join();
  return std::move(result_);
}

base::Result<SavedCheckpoint> CheckpointWriter::save(const std::string& hidden,
                                                     const std::vector<FileContents>& files,
                                                     Manifest manifest) {
  const auto begin = Clock::now();
  auto written = write_files(hidden, files);
  if (rank_ != 0) {
    const auto listed =
        write_durable(list_path(hidden, rank_),
                      list_of(written).dump(-1, ' ', false, json::error_handler_t::replace));
    if (!written) return written.error();
    if (!listed) return listed.error();
    return SavedCheckpoint{manifest.step, hidden, 0, seconds_since(begin)};
  }
  auto path = written ? publish(hidden, std::move(written).value(), manifest) : written.error();
  if (!path) {
    remove_whole(hidden);
    return path.error();
  }
  remove_old(path.value());
  SavedCheckpoint saved{manifest.step, std::move(path).value(), 0, seconds_since(begin)};
  for (const FileFacts& file : manifest.files) saved.bytes += file.bytes;
  return saved;
}

base::Result<std::string> CheckpointWriter::publish(const std::string& hidden,
                                                    std::vector<FileFacts> files,
                                                    Manifest& manifest) const {
  if (auto status = add_files_of_others(hidden, files); !status) return status.error();
  std::ranges::sort(files, {}, &FileFacts::name);
  manifest.files = std::move(files);
  manifest.time = std::max(manifest.time, time_after_all(folder_));
  if (auto status = write_manifest(hidden, manifest); !status) return status.error();
  return put_in_place(hidden, manifest.step);
}

base::Result<std::vector<FileFacts>> CheckpointWriter::write_files(
    const std::string& hidden, const std::vector<FileContents>& files) const {
  std::vector<FileFacts> facts;
  for (const FileContents& file : files) {
    auto written = write_safetensors(hidden + "/" + file.name, file.tensors, file.metadata);
    if (!written) return written.error();
    facts.push_back(std::move(written).value());
  }
  return facts;
}

base::Status CheckpointWriter::add_files_of_others(const std::string& hidden,
                                                   std::vector<FileFacts>& files) const {
  const auto end = Clock::now() + kMaxWait;
  for (int rank = 1; rank < ranks_; ++rank) {
    const std::string path = list_path(hidden, rank);
    auto text = base::read_small_file(path, kMaxListBytes);
    while (!text && text.error().code == "not_found" && Clock::now() < end && !gives_up_) {
      std::this_thread::sleep_for(kPoll);
      text = base::read_small_file(path, kMaxListBytes);
    }
    if (!text) {
      return base::Error{"storage", fmt::format("rank {} left no list of its files", rank), hidden,
                         "check that all ranks see this folder and can write to it"};
    }
    auto others = files_of(json::parse(text.value()), rank);
    if (!others) return others.error();
    std::ranges::move(others.value(), std::back_inserter(files));
    std::error_code ignored;
    fs::remove(path, ignored);
  }
  return {};
}

// A checkpoint of the same step, of a run that was resumed from an earlier step, is exchanged in
// one operation, or in two if the file system has no exchange (NFS).
base::Result<std::string> CheckpointWriter::put_in_place(const std::string& hidden,
                                                         std::int64_t step) const {
  const std::string path = folder_ + "/" + checkpoint_name(step);
  const auto rename = [](const std::string& from, const std::string& to, unsigned flags) {
    return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0;
  };
  std::string old;
  std::error_code error;
  if (!fs::exists(path, error)) {
    if (!rename(hidden, path, 0)) return storage_error(path, "cannot be put in place");
  } else if (rename(hidden, path, RENAME_EXCHANGE)) {
    old = hidden;
  } else {
    old = folder_ + "/" + kRemoved + base::random_hex(4);
    if (!rename(path, old, 0)) return storage_error(path, "cannot be replaced");
    if (!rename(hidden, path, 0)) {
      const base::Error failure = storage_error(path, "cannot be put in place");
      rename(old, path, 0);
      return failure;
    }
  }
  if (auto status = sync_folder(folder_); !status) return status.error();
  if (!old.empty()) remove_whole(old);
  return path;
}

void CheckpointWriter::remove_old(const std::string& saved) const {
  if (retention_.last <= 0) return;
  const std::vector<std::string> paths = find_checkpoints(folder_);
  const std::set<std::string> best = find_best(paths, retention_.best);
  for (auto i = static_cast<std::size_t>(retention_.last); i < paths.size(); ++i)
    if (!best.contains(paths[i]) && paths[i] != saved) remove_whole(paths[i]);
}

}  // namespace tt::checkpoint
