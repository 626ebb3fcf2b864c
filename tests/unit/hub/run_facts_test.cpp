#include "src/hub/room/run_facts.h"

#include <gtest/gtest.h>

#include <string>

namespace tt::hub {
namespace {

using nlohmann::json;

std::string refused_at(const json& facts) {
  const base::Status checked = check_facts(facts);
  return checked.ok() ? "" : checked.error().where;
}

TEST(RunFacts, OfARunAreTakenAndMembersMayBeMissing) {
  EXPECT_EQ(refused_at(json::object()), "");
  EXPECT_EQ(refused_at(json::parse(R"({
    "id": "1", "model": {"num_layers": 65535, "vocab_size": 4294967295, "seq_length": 0},
    "points": [{"name": "MLP1", "flag": 4, "first_layer": 1, "last_layer": 65535}]})")),
            "");
}

TEST(RunFacts, ThatNoPageCouldShowAreRefusedByName) {
  EXPECT_EQ(refused_at(json()), "run");
  EXPECT_EQ(refused_at(json::array()), "run");
  EXPECT_EQ(refused_at(json::parse(R"({"model": 4})")), "model");
  EXPECT_EQ(refused_at(json::parse(R"({"model": {"num_layers": 1000000000}})")),
            "model.num_layers");
  EXPECT_EQ(refused_at(json::parse(R"({"model": {"num_layers": -1}})")), "model.num_layers");
  EXPECT_EQ(refused_at(json::parse(R"({"model": {"seq_length": "x"}})")), "model.seq_length");
  EXPECT_EQ(refused_at(json::parse(R"({"points": {}})")), "points");
  EXPECT_EQ(refused_at(json::parse(R"({"points": [{}, {"last_layer": 65536}]})")),
            "points[1].last_layer");
}

}  // namespace
}  // namespace tt::hub
