#include "src/cli/output_folder.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace tt::cli {
namespace {

namespace fs = std::filesystem;

fs::path whole_path(const std::string& path) {
  std::error_code error;
  const fs::path named = fs::weakly_canonical(fs::absolute(path), error);
  return named.has_filename() ? named : named.parent_path();
}

}  // namespace

bool holds(const std::string& folder, const std::string& path) {
  if (path.empty()) return false;
  const fs::path first = whole_path(folder), second = whole_path(path);
  return std::mismatch(first.begin(), first.end(), second.begin(), second.end()).first ==
         first.end();
}

base::Status prepare_parent(const std::string& flag, const std::string& path) {
  const fs::path parent = whole_path(path).parent_path();
  std::error_code error;
  fs::create_directories(parent, error);
  if (::access(parent.c_str(), W_OK) == 0) return {};
  return base::invalid_argument(flag, "\"" + parent.string() + "\" cannot be written",
                                "give another folder");
}

}  // namespace tt::cli
