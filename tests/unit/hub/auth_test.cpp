#include "src/hub/http/auth.h"

#include <gtest/gtest.h>

namespace tt::hub {
namespace {

TEST(EqualConstantTime, ComparesContentAndLength) {
  EXPECT_TRUE(equal_constant_time("abc", "abc"));
  EXPECT_TRUE(equal_constant_time("", ""));
  EXPECT_FALSE(equal_constant_time("abc", "abd"));
  EXPECT_FALSE(equal_constant_time("abc", "ab"));
  EXPECT_FALSE(equal_constant_time("ab", "abc"));
  EXPECT_FALSE(equal_constant_time(std::string_view("ab\0", 3), "ab"));
}

TEST(HostAllowed, KnowsLoopbackNamesOnly) {
  for (const char* host : {"localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:65535", "[::1]:80"})
    EXPECT_TRUE(host_allowed(host)) << host;
  for (const char* host : {"", "localhost:", "localhost:999999", "localhost.", "127.0.0.10", "::1",
                           "127.0.0.1:8x", "evil", "localhost:80:80"})
    EXPECT_FALSE(host_allowed(host)) << host;
}

TEST(OriginAllowed, IsAbsentOrTheHost) {
  EXPECT_TRUE(origin_allowed(std::nullopt, "localhost:1"));
  EXPECT_TRUE(origin_allowed("http://localhost:1", "localhost:1"));
  EXPECT_FALSE(origin_allowed("http://localhost:2", "localhost:1"));
  EXPECT_FALSE(origin_allowed("http://127.0.0.1:1", "localhost:1"));
  EXPECT_FALSE(origin_allowed("https://localhost:1", "localhost:1"));
  EXPECT_FALSE(origin_allowed("null", "localhost:1"));
  EXPECT_FALSE(origin_allowed("", "localhost:1"));
}

TEST(BearerToken, IsWhatFollowsTheScheme) {
  EXPECT_EQ(bearer_token("Bearer abc"), "abc");
  EXPECT_EQ(bearer_token("bearer  abc "), "abc");
  EXPECT_EQ(bearer_token("Basic abc"), std::nullopt);
  EXPECT_EQ(bearer_token("Bearer"), std::nullopt);
  EXPECT_EQ(bearer_token(""), std::nullopt);
}

TEST(QueryValue, NeedsTheWholeName) {
  EXPECT_EQ(query_value("/ws?token=1", "token"), "1");
  EXPECT_EQ(query_value("/ws?x=0&token=1=2&y", "token"), "1=2");
  EXPECT_EQ(query_value("/ws?token=", "token"), "");
  EXPECT_EQ(query_value("/ws?xtoken=1&tokens=2&&token", "token"), std::nullopt);
  EXPECT_EQ(query_value("/token=1", "token"), std::nullopt);
  EXPECT_EQ(query_value("", "token"), std::nullopt);
}

TEST(CookieValue, NeedsTheWholeName) {
  EXPECT_EQ(cookie_value("tt-a=1", "tt-a"), "1");
  EXPECT_EQ(cookie_value("x=0; tt-a=1=2 ;y", "tt-a"), "1=2");
  EXPECT_EQ(cookie_value("xtt-a=1; tt-ab=2", "tt-a"), std::nullopt);
  EXPECT_EQ(cookie_value("", "tt-a"), std::nullopt);
  EXPECT_EQ(cookie_value(";;tt-a", "tt-a"), std::nullopt);
}

}  // namespace
}  // namespace tt::hub
