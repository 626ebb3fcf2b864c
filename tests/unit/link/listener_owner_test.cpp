#include "src/link/listener_owner.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <sstream>
#include <string>

#include "tensor_tracer/base/scoped_fd.h"

namespace tt::link {
namespace {

constexpr std::uint16_t kPort = 8765;  // 223D
constexpr uid_t kOwn = 1000;

// As a little-endian machine prints it.
ListenerOwner owner_in(const std::string& lines) {
  std::istringstream table(
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
      "inode\n" +
      lines);
  return listener_owner(table, kPort, kOwn);
}

std::string line(const std::string& local, const std::string& state, const std::string& uid) {
  return "   0: " + local + " 00000000:0000 " + state + " 00000000:00000000 00:00000000 00000000 " +
         uid + "        0 12345 1 0000000000000000 100 0 0 10 0\n";
}

TEST(ListenerOwner, IsFoundByAddressPortAndState) {
  EXPECT_EQ(owner_in(line("0100007F:223D", "0A", " 1000")), ListenerOwner::kOurs);
  EXPECT_EQ(owner_in(line("0100007F:223D", "0A", " 1001")), ListenerOwner::kNotOurs);
  EXPECT_EQ(owner_in(line("0100007F:223D", "0A", "    0")), ListenerOwner::kNotOurs);
  EXPECT_EQ(owner_in(line("0100007F:223D", "01", " 1001")), ListenerOwner::kUnknown)
      << "a connection";
  EXPECT_EQ(owner_in(line("0100007F:223E", "0A", " 1001")), ListenerOwner::kUnknown);
  EXPECT_EQ(owner_in(line("0500000A:223D", "0A", " 1001")), ListenerOwner::kUnknown)
      << "another address";
}

TEST(ListenerOwner, AnyAddressTakesLoopbackToo) {
  const std::string zeros(24, '0');
  for (const std::string& local : {std::string("00000000"), zeros + "00000000",
                                   "0000000000000000FFFF0000" + std::string("0100007F")}) {
    EXPECT_EQ(owner_in(line(local + ":223D", "0A", " 1000")), ListenerOwner::kOurs) << local;
    EXPECT_EQ(owner_in(line(local + ":223D", "0A", " 1001")), ListenerOwner::kNotOurs) << local;
  }
  EXPECT_EQ(owner_in(line(zeros + "01000000:223D", "0A", " 1001")), ListenerOwner::kUnknown)
      << "::1 does not";
}

TEST(ListenerOwner, OneOfAnotherUserAmongOursIsEnough) {
  EXPECT_EQ(owner_in(line("0100007F:223D", "0A", " 1000") + line("00000000:223D", "0A", " 1001")),
            ListenerOwner::kNotOurs);
  EXPECT_EQ(owner_in(""), ListenerOwner::kUnknown);
  EXPECT_EQ(owner_in("no table\n\n:::\n"), ListenerOwner::kUnknown);
}

TEST(ListenerOwner, OfThisMachineKnowsItsOwnSocketsOnly) {
  const base::ScopedFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener.get(), generic, size), 0);
  ASSERT_EQ(::getsockname(listener.get(), generic, &size), 0);
  const std::uint16_t port = ntohs(address.sin_port);
  EXPECT_EQ(listener_owner(port), ListenerOwner::kNotOurs) << "nobody's";
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(listener_owner(port), ListenerOwner::kOurs);
}

}  // namespace
}  // namespace tt::link
