#include "tensor_tracer/config/saved_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "tensor_tracer/config/train_config.h"

namespace tt::config {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST(SavedValues, FixedValuesGoBackIntoTheOptions) {
  TrainConfig saved;
  saved.model.num_layers = 3;
  saved.model.norm_epsilon = 1e-3;
  saved.model.normalization = "RMSNorm";
  saved.model.swiglu = true;
  saved.model.lora_rank = 4;
  saved.model.lora_target_modules = {"proj", "up"};
  saved.params_dtype = "float64";
  const json values = fixed_values(saved, 2);
  TrainConfig read;
  ASSERT_TRUE(set_values(train_options(read), values).ok());
  read.global_batch_size = saved.global_batch_size;
  EXPECT_EQ(fixed_values(read, 2), values);
  EXPECT_EQ(read.model.lora_target_modules, saved.model.lora_target_modules);
}

TEST(SavedValues, ValuesOfAnotherTypeAreRefusedByTheirFlag) {
  for (const auto& [flag, value] : std::initializer_list<std::pair<const char*, json>>{
           {"--num-layers", 1.5},
           {"--num-layers", "2"},
           {"--num-layers", std::uint64_t{1} << 63U},
           {"--threads", std::int64_t{1} << 40U},
           {"--norm-epsilon", "small"},
           {"--swiglu", 1},
           {"--normalization", json()},
           {"--lora-target-modules", json::array({1})}}) {
    TrainConfig config;
    const auto status = set_values(train_options(config), {{flag, value}});
    ASSERT_FALSE(status.ok()) << flag << value;
    EXPECT_THAT(to_string(status.error()), HasSubstr(flag));
  }
}

TEST(SavedValues, AnOptionalValueMayBeAbsent) {
  TrainConfig config;
  config.optimizer.min_lr = 1.0;
  ASSERT_TRUE(set_values(train_options(config), {{"--min-lr", nullptr}, {"--lr", 3}}).ok());
  EXPECT_FALSE(config.optimizer.min_lr.has_value());
  EXPECT_EQ(config.optimizer.lr, 3.0);
}

}  // namespace
}  // namespace tt::config
