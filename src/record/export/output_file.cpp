#include "src/record/export/output_file.h"

#include <filesystem>
#include <system_error>

namespace tt::record {

Failure cannot_write(const std::string& path) {
  return Failure({.code = "storage",
                  .message = "cannot be written",
                  .where = path,
                  .remedy = "check the folder and the space on its disk"});
}

PartialFile::~PartialFile() {
  if (!committed_) {
    std::error_code ignored;
    std::filesystem::remove(partial(), ignored);
  }
}

void PartialFile::commit() {
  std::error_code error;
  std::filesystem::rename(partial(), path_, error);
  if (error) {
    throw cannot_write(path_);
  }
  committed_ = true;
}

OutputFile::OutputFile(const std::string& path)
    : file_(path), out_(file_.partial(), std::ios::binary | std::ios::trunc) {
  if (!out_) {
    throw cannot_write(path);
  }
}

void OutputFile::write(std::string_view text) {
  if (!out_.write(text.data(), static_cast<std::streamsize>(text.size()))) {
    throw cannot_write(file_.path());
  }
}

void OutputFile::write(std::span<const std::byte> bytes) {
  write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void OutputFile::commit() {
  out_.close();
  if (!out_) {
    throw cannot_write(file_.path());
  }
  file_.commit();
}

}  // namespace tt::record
