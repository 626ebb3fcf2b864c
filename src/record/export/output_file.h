#pragma once

#include <cstddef>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "src/record/export/failure.h"

namespace tt::record {

/// The error of a disk that is full or refuses.
Failure cannot_write(const std::string& path);

/// A file that has its name only when it is whole; until then it is `path`.partial, which goes if
/// commit() is not reached. Thread: one.
class PartialFile {
 public:
  explicit PartialFile(std::string path) : path_(std::move(path)) {}
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile();

  /// Where to write.
  std::string partial() const { return path_ + ".partial"; }
  const std::string& path() const { return path_; }
  /// REQUIRES: the file is written and closed. Throws Failure.
  void commit();

 private:
  std::string path_;
  bool committed_ = false;
};

/// A PartialFile that is written from front to end. Every call throws Failure when the disk
/// refuses.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  void write(std::string_view text);
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  PartialFile file_;
  std::ofstream out_;
};

}  // namespace tt::record
