// The bytes of a file → the reader of recordings, and the history that is served from it. Only
// SQLite's own exceptions may leave the reader. The file lies in memory where there is such a
// place.
#include <SQLiteCpp/Exception.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "src/hub/http/history.h"
#include "tensor_tracer/record/recording.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace tt::record;
using tt::fuzz::require;
namespace fs = std::filesystem;

constexpr std::size_t kMaxFrames = 100;
constexpr std::size_t kMaxRows = 50;

/// A file of this process, removed with it; so is what SQLite puts beside it.
class OwnFile {
 public:
  OwnFile()
      : path_((fs::is_directory("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()) /
              ("tt-fuzz-" + std::to_string(getpid()) + ".ttrec")) {}
  ~OwnFile() { remove(); }
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;

  void write(std::string_view bytes) const {
    remove();  // the log of another input does not belong to this one
    std::ofstream file(path_, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    require(file.good(), "the file can be written");
  }
  std::string path() const { return path_.string(); }

 private:
  void remove() const {
    for (const char* ending : {"", "-wal", "-shm", "-journal"}) fs::remove(path() + ending);
  }

  fs::path path_;
};

template <typename Action>
void attempt(Action action) {
  try {
    action();
  } catch (const SQLite::Exception&) {  // NOLINT(bugprone-empty-catch): a damaged file
  }
}

void read_run(Recording& recording, std::uint64_t run) {
  attempt([&] {
    std::size_t frames = 0;
    std::size_t bytes = 0;
    recording.frames({.run = run}, [&](const Frame& frame) {
      for (const char c : frame.record) bytes += c == 0 ? 1 : 0;  // each byte can be read
      return ++frames < kMaxFrames;
    });
    require(frames <= kMaxFrames, "reading ends when it is told to");
  });
  attempt([&] {
    std::uint64_t before = 0;
    for (const StepRow& row : recording.steps(run, 0, INT64_MAX, kMaxRows)) {
      require(row.params.is_object(), "a step is an object");
      require(before <= INT64_MAX || row.step > INT64_MAX, "order");
      before = row.step;
    }
  });
}

void read_history(Recording& recording) {
  for (const char* target : {"/history", "/history/steps?limit=50", "/history/events?limit=50",
                             "/history/records?point=MLP1&layers=1-4&limit=4096"}) {
    attempt([&] {
      tt::hub::HttpRequest request(tt::hub::http::verb::get, target, 11);
      const auto response = tt::hub::answer_history(request, recording, {});
      const bool json = response[tt::hub::http::field::content_type] == "application/json";
      require(!json || nlohmann::json::accept(response.body()), "what is called JSON is JSON");
    });
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const OwnFile file;
  file.write(tt::fuzz::as_text(data, size));
  auto recording = Recording::open(file.path());
  if (!recording) {
    require(recording.error().where == file.path(), "the error names the file");
    return 0;
  }
  attempt([&] {
    for (const RunInfo& run : recording.value().runs()) read_run(recording.value(), run.run);
  });
  attempt([&] {
    require(recording.value().events({.limit = kMaxRows}).size() <= kMaxRows,
            "the limit of events");
  });
  read_history(recording.value());
  return 0;
}
