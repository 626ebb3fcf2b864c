#include "tensor_tracer/checkpoint/vector_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "tensor_tracer/base/scoped_fd.h"

namespace tt::checkpoint {
namespace {

namespace fs = std::filesystem;

class VectorDirectoryTest : public testing::Test {
 protected:
  VectorDirectoryTest()
      : folder_(fs::temp_directory_path() / ("tt_vectors_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~VectorDirectoryTest() override { fs::remove_all(folder_); }

  /// A file of two layers of two numbers.
  void write(const std::string& name) {
    const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n";
    std::ofstream out(folder_ / name, std::ios::binary);
    out << "\x93NUMPY\x01" << '\0' << static_cast<char>(header.size()) << '\0' << header;
    out << std::string(16, '\0');
  }
  const fs::path folder_;
};

// The folder may hold thousands of vectors.
TEST_F(VectorDirectoryTest, AVectorIsFoundWithoutListingTheFolder) {
  write("a.npy");
  write("b.npy");
  VectorDirectory directory(folder_, 2, 2);
  const base::ScopedFd watch(::inotify_init1(IN_NONBLOCK));
  ASSERT_GE(::inotify_add_watch(watch.get(), folder_.c_str(), IN_OPEN | IN_ONLYDIR), 0);
  ASSERT_TRUE(directory.find("a").ok());
  std::array<char, 4096> events{};
  const auto opened = [&] {
    std::size_t folders = 0;
    const auto bytes = ::read(watch.get(), events.data(), events.size());
    for (ssize_t at = 0; at < bytes;) {
      const auto* event = reinterpret_cast<const inotify_event*>(events.data() + at);
      if ((event->mask & IN_ISDIR) != 0) ++folders;
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
    return folders;
  };
  EXPECT_EQ(opened(), 0U);
  EXPECT_THAT(directory.names(), testing::ElementsAre("a", "b"));
  EXPECT_EQ(opened(), 1U);
}

TEST_F(VectorDirectoryTest, ANameIsNoPathAndATypoIsTold) {
  write("evil.npy");
  VectorDirectory directory(folder_, 2, 2);
  const auto told = [&](const std::string& name) {
    return to_string(directory.find(name).error());
  };
  EXPECT_THAT(told("evli"), testing::HasSubstr("did you mean evil?"));
  EXPECT_THAT(told("sycophantic"), testing::HasSubstr("known vectors: evil"));
  EXPECT_THAT(told("../" + folder_.filename().string() + "/evil"),
              testing::HasSubstr("there is no such vector"));
  for (int i = 0; i < 40; ++i) write("v" + std::to_string(i) + ".npy");
  EXPECT_THAT(told("sycophantic"), testing::HasSubstr(" and 9 more"));
}

}  // namespace
}  // namespace tt::checkpoint
