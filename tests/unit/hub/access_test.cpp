#include "tensor_tracer/hub/access.h"

#include <gtest/gtest.h>

#include "src/hub/http/auth.h"
#include "tensor_tracer/hub/server.h"

namespace tt::hub {
namespace {

using Strings = std::vector<std::string>;

std::string wrong_flag(const Access& access) {
  const base::Status status = check(access);
  return status.ok() ? "" : status.error().where;
}

TEST(CheckAccess, NamesTheFlag) {
  for (const char* bind : {"", "localhost", "127.0.0.1", "127.8.0.1", "::1"})
    EXPECT_EQ(wrong_flag({.bind = bind, .viewers_need_token = false}), "") << bind;
  for (const char* bind : {"0.0.0.0", "::", "10.0.0.5", "fe80::1"}) {
    EXPECT_EQ(wrong_flag({.bind = bind}), "") << bind;
    const base::Status open = check({.bind = bind, .viewers_need_token = false});
    ASSERT_FALSE(open.ok()) << bind;
    EXPECT_EQ(open.error().where, "--auth none");
    EXPECT_NE(open.error().message.find("--bind"), std::string::npos);
  }
  for (const char* bind : {"node17", "10.0.0", "127.0.0.1.evil.example", "*", "1.2.3.4:5"})
    EXPECT_EQ(wrong_flag({.bind = bind}), "--bind") << bind;
  for (const char* origin : {"*", "null", "", "http://", "localhost:1", "http://a/", "ftp://a",
                             "http://a b", "http://a;x"})
    EXPECT_EQ(wrong_flag({.origins = {origin}}), "--allow-origin") << origin;
  for (const char* host : {"", "http://a", "a b", "a;b", "*"})
    EXPECT_EQ(wrong_flag({.hosts = {host}}), "--allow-host") << host;
  EXPECT_EQ(wrong_flag({.hosts = {"hub.example"}, .origins = {"https://hub.example:8443"}}), "");
}

TEST(AllowedHosts, AddTheBoundAddress) {
  EXPECT_EQ(allowed_hosts({.hosts = {"a"}}, "node"), (Strings{"a"}));
  for (const char* own : {"", "localhost", "127.0.0.1", "::1"})
    EXPECT_EQ(allowed_hosts({.bind = own}, "node"), Strings()) << own;
  EXPECT_EQ(allowed_hosts({.bind = "127.0.0.2"}, "node"), (Strings{"127.0.0.2"}));
  EXPECT_EQ(allowed_hosts({.bind = "10.0.0.5"}, "node"), (Strings{"10.0.0.5"}));
  EXPECT_EQ(allowed_hosts({.bind = "fe80::1"}, "node"), (Strings{"[fe80::1]"}));
  EXPECT_EQ(allowed_hosts({.bind = "0.0.0.0"}, "node"), (Strings{"node"}));
  EXPECT_EQ(allowed_hosts({.bind = "2001:DB8:0:0::1"}, "node"), (Strings{"[2001:db8::1]"}))
      << "as browsers send it";
  EXPECT_EQ(allowed_hosts({.bind = "0:0::0"}, "node"), (Strings{"node"}));
  EXPECT_EQ(listen_addresses("0:0::1"), (Strings{"127.0.0.1", "::1"}));
  EXPECT_TRUE(is_loopback("0:0::1"));
}

TEST(HostAllowed, KnowsOthersByTheirWholeName) {
  const Strings others = {"10.0.0.5", "hub.example"};
  for (const char* host : {"10.0.0.5", "10.0.0.5:8765", "HUB.example:1", "localhost"})
    EXPECT_TRUE(host_allowed(host, others)) << host;
  for (const char* host : {"10.0.0.50", "10.0.0.5.evil", "xhub.example", "hub.example.evil"})
    EXPECT_FALSE(host_allowed(host, others)) << host;
}

TEST(OriginAllowed, OneOfTheOthersAsItStands) {
  const Strings others = {"http://localhost:5173"};
  EXPECT_TRUE(origin_allowed("http://localhost:5173", "localhost:8765", others));
  EXPECT_TRUE(origin_allowed("http://localhost:8765", "localhost:8765", others));
  for (const char* origin : {"http://localhost:51730", "https://localhost:5173", "null", ""})
    EXPECT_FALSE(origin_allowed(origin, "localhost:8765", others)) << origin;
}

TEST(OpenListeners, TakeOnePortOnEveryAddress) {
  auto first = open_listeners("", 0);
  ASSERT_TRUE(first.ok());
  const int port = port_of(first.value().front()).value();
  for (const base::ScopedFd& listener : first.value()) EXPECT_EQ(port_of(listener).value(), port);
  const auto taken = open_listeners("", port);
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code, "port_in_use");
  const auto next = open_listeners("", 0);
  ASSERT_TRUE(next.ok());
  EXPECT_NE(port_of(next.value().front()).value(), port);
}

TEST(OpenListeners, APortThatIsTakenOnOneAddressIsTaken) {
  auto both = open_listeners("", 0);
  ASSERT_TRUE(both.ok());
  if (both.value().size() < 2) GTEST_SKIP() << "this machine has no ::1";
  const int port = port_of(both.value().front()).value();
  both.value().erase(both.value().begin());
  EXPECT_EQ(open_listeners("", port).error().code, "port_in_use") << "::1 is still taken";
}

TEST(OpenListeners, AnAddressOfAnotherMachineIsNamed) {
  const auto foreign = open_listeners("192.0.2.1", 0);  // an address for documentation
  ASSERT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.error().where, "--bind");
  EXPECT_NE(foreign.error().message.find("192.0.2.1"), std::string::npos);
}

}  // namespace
}  // namespace tt::hub
