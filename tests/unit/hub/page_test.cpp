#include "src/hub/http/page.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tt::hub {
namespace {

TEST(LoadPageFile, ServesPlainNamesBelowTheFolderOnly) {
  const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / "page_test";
  std::filesystem::create_directories(root / "dist" / "assets");
  std::ofstream(root / "dist" / "index.html") << "index";
  std::ofstream(root / "dist" / "assets" / "a-1_b.js") << "script";
  std::ofstream(root / "secret.txt") << "secret";
  const std::string dist = (root / "dist").string();

  EXPECT_EQ(load_page_file(dist, "/")->content, "index");
  EXPECT_EQ(load_page_file(dist, "/index.html")->content_type, "text/html; charset=utf-8");
  EXPECT_EQ(load_page_file(dist, "/assets/a-1_b.js")->content, "script");
  for (const char* path :
       {"", "index.html", "/../secret.txt", "/assets/../../secret.txt", "//index.html", "/assets",
        "/assets/", "/./index.html", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "/a\\b"})
    EXPECT_FALSE(load_page_file(dist, path).has_value()) << path;
  EXPECT_FALSE(load_page_file("", "/").has_value());
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace tt::hub
