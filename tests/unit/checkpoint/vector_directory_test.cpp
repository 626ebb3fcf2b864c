#include "tensor_tracer/checkpoint/vector_directory.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "tensor_tracer/base/scoped_fd.h"
#include "tensor_tracer/checkpoint/vector_file.h"

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
  write("._b.npy");  // macOS leaves them
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

// The file may be replaced by another one while the run reads it.
TEST_F(VectorDirectoryTest, AFileHoldsSeveralVectors) {
  const std::string path = folder_ / "traits.safetensors";
  const auto vectors = [](const std::string& second) {
    const at::Tensor rows = at::arange(6, at::device(at::kCPU).dtype(at::kFloat)).view({3, 2});
    return std::vector<StoredVector>{{"evil", rows}, {second, rows.mul(2).to(at::kBFloat16)}};
  };
  ASSERT_TRUE(write_vectors(path, vectors("kind")).ok());
  VectorDirectory directory(path, 2, 2);
  EXPECT_THAT(directory.names(), testing::ElementsAre("evil", "kind"));
  const auto kind = directory.find("kind");
  ASSERT_TRUE(kind.ok());
  EXPECT_THAT(kind.value()->rows, testing::ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_TRUE(kind.value()->has_embedding_row);
  ASSERT_TRUE(write_vectors(path, vectors("vain")).ok());
  EXPECT_THAT(directory.names(), testing::ElementsAre("evil", "vain"));
  EXPECT_THAT(to_string(directory.find("kind").error()), testing::HasSubstr("known vectors: evil"));
  EXPECT_THAT(to_string(VectorDirectory(folder_, 2, 2).find("traits").error()),
              testing::HasSubstr("it holds several tensors"));
}

TEST_F(VectorDirectoryTest, AVectorIsReadAsItWasWritten) {
  const at::Tensor rows = at::arange(6, at::device(at::kCPU).dtype(at::kFloat)).view({2, 3}).t();
  for (const char* name : {"v.pt", "v.safetensors"}) {
    const std::string path = folder_ / name;
    ASSERT_TRUE(write_vectors(path, {{"v", rows, {{"layer_base", 0}}}}).ok());
    const auto file = VectorFile::open(path);
    ASSERT_TRUE(file.ok());
    EXPECT_THAT(file.value().names(), testing::ElementsAre("v"));
    const auto read = file.value().read("v");
    ASSERT_TRUE(read.ok());
    EXPECT_TRUE(read.value().rows.equal(rows));
    EXPECT_EQ(read.value().provenance.is_null(), path.ends_with(".pt"));
  }
}

}  // namespace
}  // namespace tt::checkpoint
