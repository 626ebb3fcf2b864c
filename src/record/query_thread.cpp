#include "tensor_tracer/record/query_thread.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <utility>

#include "tensor_tracer/base/thread.h"

namespace tt::record {
namespace {

std::optional<Recording> try_to_open(const std::string& path) {
  try {
    base::Result<Recording> opened = Recording::open(path);
    if (opened) return std::move(opened).value();
    spdlog::error("history_unreadable: {}", base::to_string(opened.error()));
  } catch (const std::exception& error) {
    spdlog::error("history_unreadable: {}: {}", path, error.what());
  }
  return std::nullopt;
}

}  // namespace

QueryThread::QueryThread(std::string path) : path_(std::move(path)), thread_([this] { run(); }) {}

QueryThread::~QueryThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  arrived_.notify_one();
  thread_.join();
}

void QueryThread::post(Query query) {
  {
    const std::lock_guard lock(mutex_);
    queries_.push_back(std::move(query));
  }
  arrived_.notify_one();
}

std::optional<QueryThread::Query> QueryThread::take() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [this] { return ending_ || !queries_.empty(); });
  if (ending_) return std::nullopt;
  Query query = std::move(queries_.front());
  queries_.pop_front();
  return query;
}

void QueryThread::run() {
  base::set_thread_name("tt-history");
  std::optional<Recording> recording;
  while (const auto query = take()) {
    if (!recording) recording = try_to_open(path_);
    if (recording)
      run_query(*query, *recording);
    else
      let_go_of_waiting();
  }
}

// These queries would fail too, and each try may take seconds.
void QueryThread::let_go_of_waiting() {
  std::deque<Query> let_go;  // destroyed after the lock
  const std::lock_guard lock(mutex_);
  let_go.swap(queries_);
}

void run_query(const QueryThread::Query& query, Recording& recording) {
  try {
    query(recording);
  } catch (const std::exception& error) {
    spdlog::error("a query of the recording failed: {}", error.what());
  }
}

}  // namespace tt::record
