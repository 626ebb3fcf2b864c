#include "src/hub/transport.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/write.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tt::hub {
namespace {

constexpr Transport::ReadAhead kSizes{.least = 1024, .most = 8192};
constexpr std::size_t kSent = std::size_t{64} << 10U;  // a system's buffer takes that at once

class TransportTest : public ::testing::Test {
 protected:
  TransportTest() {
    tcp::acceptor acceptor(context_, {net::ip::address_v4::loopback(), 0});
    peer_.connect(acceptor.local_endpoint());
    transport_.emplace(acceptor.accept(), kSizes);
    for (std::size_t i = 0; i < kSent; ++i) {
      sent_ += static_cast<char>('a' + i * i % 23);
    }
    net::write(peer_, net::buffer(sent_));
  }

  // Reads `bytes` at most once; what was there.
  std::size_t read_some(std::size_t bytes) {
    std::string to(bytes, '\0');
    std::size_t count = 0;
    transport_->async_read_some(net::buffer(to), [&](beast::error_code failure, std::size_t got) {
      ASSERT_FALSE(failure) << failure.message();
      count = got;
    });
    context_.restart();
    context_.run();
    got_ += to.substr(0, count);
    return count;
  }

  // How much one call of the system reads ahead for a small read.
  std::size_t one_fill() {
    std::size_t bytes = read_some(10);
    while (transport_->has_input()) {
      bytes += read_some(100);
    }
    return bytes;
  }

  net::io_context context_;
  tcp::socket peer_{context_};
  std::optional<Transport> transport_;
  std::string sent_;
  std::string got_;
};

TEST_F(TransportTest, ReadsTwiceAsMuchAheadWhileThatMuchWaits) {
  std::vector<std::size_t> fills;
  for (int i = 0; i < 6; ++i) {
    fills.push_back(one_fill());
  }
  EXPECT_EQ(fills, (std::vector<std::size_t>{1024, 2048, 4096, 8192, 8192, 8192}));
  EXPECT_EQ(got_, sent_.substr(0, got_.size()));
}

TEST_F(TransportTest, BeginsAgainAfterAReadThatWentPastIt) {
  one_fill();
  one_fill();
  EXPECT_EQ(read_some(3000), 3000U);  // where it belongs, in one go
  EXPECT_FALSE(transport_->has_input());
  EXPECT_EQ(one_fill(), 1024U);
  EXPECT_EQ(one_fill(), 2048U);
  EXPECT_EQ(got_, sent_.substr(0, got_.size()));
}

TEST_F(TransportTest, GrowsNoFurtherWhenLessWaits) {
  EXPECT_EQ(read_some(kSent - 2500), kSent - 2500);
  EXPECT_EQ(one_fill(), 1024U);
  EXPECT_EQ(one_fill(), 1476U);  // of 2048
  net::write(peer_, net::buffer(sent_));
  EXPECT_EQ(one_fill(), 2048U);
  EXPECT_EQ(got_, sent_ + sent_.substr(0, 2048));
}

}  // namespace
}  // namespace tt::hub
