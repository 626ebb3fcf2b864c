#include "tensor_tracer/base/private_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tt::base {
namespace {

namespace fs = std::filesystem;

class SecretTest : public testing::Test {
 protected:
  SecretTest()
      : folder_(fs::path(testing::TempDir()) /
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::create_directories(folder_);
  }
  ~SecretTest() override { fs::remove_all(folder_); }
  SecretTest(const SecretTest&) = delete;
  SecretTest& operator=(const SecretTest&) = delete;

  std::string path() const { return folder_ / "token"; }
  void write(const std::string& text, mode_t mode) const {
    std::ofstream(path()) << text;
    ASSERT_EQ(::chmod(path().c_str(), mode), 0);
  }
  Error refused() const {
    const auto secret = read_or_make_secret(path());
    EXPECT_FALSE(secret.ok());
    return secret.ok() ? Error() : secret.error();
  }

  const fs::path folder_;
  const std::string text_ = std::string(64, 'a');
};

TEST_F(SecretTest, IsMadeOnceAndPrivate) {
  const auto made = read_or_make_secret(path());
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made.value().size(), 64U);
  struct stat facts {};
  ASSERT_EQ(::stat(path().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777U, 0600U);
  EXPECT_EQ(read_or_make_secret(path()).value(), made.value());
}

TEST_F(SecretTest, OfItsOwnerAloneIsTaken) {
  for (const mode_t mode : {0600U, 0400U}) {
    write(text_, mode);
    EXPECT_EQ(read_or_make_secret(path()).value(), text_);
    fs::remove(path());
  }
}

TEST_F(SecretTest, ThatOthersCanReadOrWriteIsRefused) {
  for (const mode_t mode : {0640U, 0604U, 0620U, 0602U, 0666U}) {
    write(text_, mode);
    const Error error = refused();
    EXPECT_EQ(error.code, "invalid_secret");
    EXPECT_EQ(error.where, path());
    EXPECT_NE(error.message.find("not 0600"), std::string::npos) << error.message;
    fs::remove(path());
  }
}

TEST_F(SecretTest, OfAnotherUserIsRefused) {
  write(text_, 0600);
  if (::chown(path().c_str(), 12345, static_cast<gid_t>(-1)) != 0)
    GTEST_SKIP() << "only root can give a file to another user";
  EXPECT_EQ(refused().code, "invalid_secret");
}

TEST_F(SecretTest, ThatIsNoFileOrTooShortIsRefused) {
  write("short", 0600);
  EXPECT_EQ(refused().code, "invalid_secret");
  fs::remove(path());
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  EXPECT_EQ(refused().code, "invalid_secret");
}

}  // namespace
}  // namespace tt::base
