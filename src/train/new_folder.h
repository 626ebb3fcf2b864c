#pragma once

#include <filesystem>
#include <string>

#include "tensor_tracer/base/result.h"

namespace tt::train {

/// A folder that appears under its name when it is complete. Until then it is hidden beside it.
/// Errors have the code "storage" and name the flag. Thread: one.
class NewFolder {
 public:
  /// `flag`: the option that named the folder. `replaces`: an older folder is removed.
  NewFolder(const std::string& name, std::string flag, bool replaces);

  /// Removes the hidden folder.
  void discard() const;
  /// Makes the hidden folder, and removes one that a former run left.
  base::Status make();
  /// The hidden folder.
  const std::filesystem::path& path() const { return hidden_; }
  base::Status write(const std::string& file, const std::string& text) const;
  base::Status copy(const std::filesystem::path& file) const;
  /// Gives the folder its name. Error: there is another folder that is not empty; then the hidden
  /// one stays. No call may follow.
  base::Status publish();

 private:
  base::Error cannot(const std::filesystem::path& path, const std::string& message) const;

  std::filesystem::path named_, hidden_;
  const std::string flag_;
  const bool replaces_;
};

}  // namespace tt::train
