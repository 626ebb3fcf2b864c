#include "src/hub/socket/connection.h"

#include <gtest/gtest.h>

#include <memory>

namespace tt::hub {
namespace {

struct Slow : Connection {
  void finish() override {}
  void kill() override { ++killed; }
  int killed = 0;
};

TEST(Connections, OneThatTakesTimeToEndIsKilledOnce) {
  Connections connections;
  const auto first = std::make_shared<Slow>();
  const auto second = std::make_shared<Slow>();
  const auto ticket = connections.add(first);
  connections.add(second);
  connections.kill_oldest();
  connections.kill_oldest();
  EXPECT_EQ(first->killed, 1);
  EXPECT_EQ(second->killed, 1);
  connections.remove(ticket);
  connections.kill_oldest();
  EXPECT_EQ(second->killed, 2);
}

}  // namespace
}  // namespace tt::hub
