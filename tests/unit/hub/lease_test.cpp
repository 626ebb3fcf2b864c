#include "src/hub/room/lease.h"

#include <gtest/gtest.h>

namespace tt::hub {
namespace {

using namespace std::chrono_literals;

class LeaseTest : public testing::Test {
 protected:
  const Clock::time_point start_ = Clock::now();
  Lease lease_{30s};
};

TEST_F(LeaseTest, BelongsToOneSession) {
  EXPECT_FALSE(lease_.held());
  EXPECT_TRUE(lease_.describe().at("holder").is_null());
  EXPECT_TRUE(lease_.claim("v1", "Ada", false, start_).ok());
  EXPECT_TRUE(lease_.claim("v1", "Ada L.", false, start_).ok());
  const base::Status refused = lease_.claim("v2", "Bob", false, start_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "busy");
  EXPECT_EQ(refused.error().message, "Ada L. controls the run");
  EXPECT_TRUE(lease_.claim("v2", "Bob", true, start_).ok());
  EXPECT_FALSE(lease_.held_by("v1"));
  EXPECT_EQ(lease_.describe().at("holder").at("session"), "v2");
}

TEST_F(LeaseTest, EndsExactlyItsDurationAfterTheHoldersLastMessage) {
  ASSERT_TRUE(lease_.claim("v1", "", false, start_).ok());
  lease_.renew("v1", start_ + 20s);
  lease_.renew("v2", start_ + 40s);
  EXPECT_FALSE(lease_.expire(start_ + 50s - 1ms));
  EXPECT_TRUE(lease_.expire(start_ + 50s));
  EXPECT_FALSE(lease_.expire(start_ + 51s));
  EXPECT_FALSE(lease_.held());
}

TEST_F(LeaseTest, OnlyItsHolderReleasesIt) {
  ASSERT_TRUE(lease_.claim("v1", "", false, start_).ok());
  EXPECT_FALSE(lease_.release("v2"));
  EXPECT_TRUE(lease_.release("v1"));
  EXPECT_FALSE(lease_.release("v1"));
  EXPECT_FALSE(lease_.release(""));
}

TEST_F(LeaseTest, OfAGoneHolderIsFreeToClaimButRunsOn) {
  ASSERT_TRUE(lease_.claim("v1", "", false, start_).ok());
  lease_.disconnected("v2");
  EXPECT_FALSE(lease_.claim("v3", "", false, start_).ok());
  lease_.disconnected("v1");
  EXPECT_TRUE(lease_.held_by("v1"));
  EXPECT_TRUE(lease_.claim("v3", "", false, start_).ok());
}

}  // namespace
}  // namespace tt::hub
