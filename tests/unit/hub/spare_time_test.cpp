#include "src/hub/legacy/spare_time.h"

#include <gtest/gtest.h>

namespace tt::hub::dialect {
namespace {

class SpareTimeTest : public testing::Test {
 protected:
  // So many seconds go by, of which this part of one CPU is idle.
  bool is_covered_after(double seconds, double idle) {
    now_ += seconds;
    idle_ += seconds * idle;
    return spare_.is_covered();
  }

  double now_ = 1000, idle_ = 500;
  SpareTime spare_{[this] { return now_; }, [this] { return idle_; }};
};

TEST_F(SpareTimeTest, AFreeProcessorIsTakenToHalf) {
  EXPECT_TRUE(is_covered_after(1, 1.0));
  for (int i = 0; i < 100; ++i) {
    spare_.spend(0.01);
    EXPECT_TRUE(is_covered_after(0.03, 1.0)) << i;
  }
  spare_.spend(0.3);
  EXPECT_FALSE(is_covered_after(0.3, 1.0));
}

TEST_F(SpareTimeTest, ABusyMachineGivesThreeHundredthsOfAProcessor) {
  for (const double idle : {0.0, 0.4}) {
    EXPECT_TRUE(is_covered_after(100, idle));
    spare_.spend(0.1 + 0.03);  // what is saved, and more
    EXPECT_FALSE(is_covered_after(0.9, idle)) << idle;
    EXPECT_TRUE(is_covered_after(0.2, idle)) << idle;
  }
}

TEST_F(SpareTimeTest, LittleIsSaved) {
  EXPECT_TRUE(is_covered_after(3600, 2.0));
  spare_.spend(0.09);
  EXPECT_TRUE(spare_.is_covered());
  spare_.spend(0.02);
  EXPECT_FALSE(spare_.is_covered());
}

TEST(SpareTime, ReadsTheRunningMachine) {
  SpareTime spare;
  EXPECT_TRUE(spare.is_covered());
  spare.spend(1e6);
  EXPECT_FALSE(spare.is_covered());
}

}  // namespace
}  // namespace tt::hub::dialect
