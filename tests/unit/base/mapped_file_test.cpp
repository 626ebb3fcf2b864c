#include "tensor_tracer/base/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

namespace tt::base {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBytes = std::size_t{16} << 20U;

// The file pages in this process's resident memory, in bytes.
std::size_t resident_file_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::size_t kilobytes = 0;
    if (word == "RssFile:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

class MappedFileTest : public testing::Test {
 protected:
  MappedFileTest() { std::ofstream(path_) << std::string(kBytes, 'x'); }
  ~MappedFileTest() override { fs::remove(path_); }
  const std::string path_ = fs::temp_directory_path() / ("tt_mapped_" + std::to_string(::getpid()));
};

TEST_F(MappedFileTest, ReleasedPagesLeaveResidentMemoryAndComeBack) {
  const auto mapped = map_file(path_);
  ASSERT_TRUE(mapped.ok());
  const std::string_view bytes = *mapped.value();
  const auto count = [&] { return std::ranges::count(bytes, 'x'); };
  const std::size_t before = resident_file_bytes();
  EXPECT_EQ(count(), static_cast<std::ptrdiff_t>(kBytes));
  EXPECT_GE(resident_file_bytes(), before + kBytes / 2);
  release_pages(bytes.substr(100));
  EXPECT_LT(resident_file_bytes(), before + kBytes / 2);
  EXPECT_EQ(count(), static_cast<std::ptrdiff_t>(kBytes));
}

TEST_F(MappedFileTest, AFolderAndAMissingFileAreErrors) {
  EXPECT_EQ(map_file(fs::temp_directory_path()).error().code, "io_error");
  EXPECT_EQ(map_file(path_ + "x").error().code, "not_found");
}

}  // namespace
}  // namespace tt::base
