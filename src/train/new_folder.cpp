#include "src/train/new_folder.h"

#include <fstream>
#include <system_error>
#include <utility>

namespace tt::train {

namespace fs = std::filesystem;

NewFolder::NewFolder(const std::string& name, std::string flag, bool replaces)
    : flag_(std::move(flag)), replaces_(replaces) {
  const fs::path whole = fs::absolute(name).lexically_normal();
  named_ = whole.has_filename() ? whole : whole.parent_path();
  hidden_ = named_.parent_path() / ("." + named_.filename().string() + ".partial");
}

base::Error NewFolder::cannot(const fs::path& path, const std::string& message) const {
  return {"storage", "\"" + path.string() + "\" " + message, flag_,
          "give a folder that can be written"};
}

void NewFolder::discard() const {
  std::error_code ignored;
  fs::remove_all(hidden_, ignored);
}

base::Status NewFolder::make() {
  std::error_code error;
  fs::remove_all(hidden_, error);
  fs::create_directories(hidden_, error);
  if (error) return cannot(hidden_, "cannot be made: " + error.message());
  return {};
}

base::Status NewFolder::write(const std::string& name, const std::string& text) const {
  std::ofstream file(hidden_ / name);
  file << text;
  file.close();
  if (!file) return cannot(hidden_ / name, "cannot be written");
  return {};
}

base::Status NewFolder::copy(const fs::path& file) const {
  std::error_code error;
  fs::copy_file(file, hidden_ / file.filename(), error);
  if (error) return cannot(hidden_ / file.filename(), "cannot be written: " + error.message());
  return {};
}

base::Status NewFolder::publish() {
  const fs::path old = hidden_.string() + ".old";
  std::error_code error;
  fs::remove_all(old, error);  // of a process that was killed here
  const bool is_there = fs::exists(named_, error) && !fs::is_empty(named_, error);
  if (is_there && !replaces_)
    return cannot(named_, "has files now; the new ones are in \"" + hidden_.string() + "\"");
  if (is_there) fs::rename(named_, old, error);
  if (!error) fs::rename(hidden_, named_, error);
  if (error) {
    std::error_code undo;
    if (is_there && !fs::exists(named_, undo)) fs::rename(old, named_, undo);
    return cannot(named_, "cannot be made: " + error.message());
  }
  fs::remove_all(old, error);
  return {};
}

}  // namespace tt::train
