#include "tensor_tracer/trace/tracer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "tensor_tracer/comm/shards.h"
#include "tensor_tracer/comm/world.h"
#include "tensor_tracer/protocol/record.h"
#include "tests/unit/trace/collector.h"

namespace tt::trace {
namespace {

using nlohmann::json;

at::Tensor logical(const points::PlaceKey& place, std::int64_t features, at::ScalarType dtype) {
  const std::uint64_t seed = place.row * 100U + place.layer;
  return at::empty({4, 5, features}, at::kDouble)
      .normal_(0.0, 1.0, at::detail::createCPUGenerator(seed))
      .to(dtype);
}

// One watched forward of made-up tensors on `ranks` ranks; what the leader sent.
std::vector<Record> watch(int ranks, std::int64_t groups, const json& plan, at::ScalarType dtype) {
  Collector collector;
  comm::run_local(ranks, [&](const comm::ProcessGroup& group) {
    const PlanContext about = context(ranks, groups);
    Tracer tracer(about, {77, {group.rank(), 0, 0}}, group,
                  group.rank() == 0 ? &collector : nullptr);
    tracer.set_plan(plan_of(plan, about));
    Pass pass = tracer.begin({6, 0, 0, Phase::kTrain});
    pass.capture(key_of("InputTokens", 0), at::arange(40, at::kLong).view({2, 4, 5}));
    for (int layer = 1; layer <= 3; ++layer) {
      for (const char* name : {"QKV", "MLP1", "HiddenStates"}) {
        const points::PlaceKey place = key_of(name, layer);
        const points::Place& point = about.places->rows()[place.row];
        at::Tensor local = logical(place, point.features, dtype);
        if (point.placement.kind == mesh::Placement::Kind::kShard)
          local = comm::take_shard(local, point.placement, group.rank(), ranks);
        pass.capture(place, local);
      }
    }
    pass.end_forward();
    pass.finish();
  });
  EXPECT_EQ(collector.messages, collector.all.empty() ? 0 : 1);
  return std::move(collector.all);
}

const json kEverything = json::parse(R"({"entries": [
    {"point": "QKV", "rows": 3, "compressor": {"kind": "tile", "tiles": 7}, "dtype": "f64"},
    {"point": "MLP1", "layers": "2-3", "compressor": {"kind": "tile", "tiles": 96},
     "dtype": "f64"},
    {"point": "HiddenStates", "rows": 0, "compressor": {"kind": "none"}, "dtype": "f64"},
    {"point": "InputTokens"}]})");

TEST(Tracer, RecordsAreTheSameBitForBitOnEveryTensorAxis) {
  for (const std::int64_t groups : {8, 2, 1}) {
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
      const auto whole = watch(1, groups, kEverything, dtype);
      ASSERT_EQ(whole.size(), 9u);
      for (const int ranks : {2, 4, 8}) {
        const auto sharded = watch(ranks, groups, kEverything, dtype);
        ASSERT_EQ(sharded.size(), whole.size());
        for (std::size_t i = 0; i < whole.size(); ++i) {
          EXPECT_TRUE(at::equal(sharded[i].values, whole[i].values))
              << "record " << i << ", " << ranks << " ranks, " << groups << " groups";
          EXPECT_EQ(sharded[i].header.entry, whole[i].header.entry);
          EXPECT_EQ(sharded[i].header.layer, whole[i].header.layer);
        }
      }
    }
  }
}

TEST(Tracer, EmptyTokensSayOnlyThatTheyWerePassed) {
  const json plan = {
      {"entries", {{{"point", "InputTokens"}, {"compressor", {{"kind", "empty"}}}}}}};
  for (const int ranks : {1, 2}) {
    const auto records = watch(ranks, 2, plan, at::kFloat);
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].header.compressor, protocol::RecordCompressor::kEmpty);
    EXPECT_EQ(records[0].values.sizes(), at::IntArrayRef({2, 1, 0}));
  }
}

TEST(Tracer, TilesAreAtensMeansAndHeadersSayWhatIsWhat) {
  const auto records = watch(2, 2, kEverything, at::kDouble);
  std::uint64_t sequence = 0;
  for (const Record& record : records) {
    EXPECT_EQ(record.header.run, 77u);
    EXPECT_EQ(record.header.sequence, ++sequence);
    EXPECT_EQ(record.header.step, 6u);
    EXPECT_EQ(record.header.plan, 9u);
    if (record.header.point != 1) continue;
    const std::int64_t features = record.header.features;
    const at::Tensor full = logical(key_of("QKV", record.header.layer), features, at::kDouble);
    ASSERT_EQ(record.values.sizes(), (std::vector<std::int64_t>{3, 5, 7}));
    for (std::int64_t tile = 0; tile < 7; ++tile) {
      const std::int64_t begin = tile * features / 7;
      const at::Tensor mean =
          full.narrow(0, 0, 3).narrow(2, begin, (tile + 1) * features / 7 - begin).mean(-1);
      EXPECT_TRUE(at::allclose(record.values.select(2, tile), mean, 1e-12, 1e-14));
    }
  }
}

TEST(Tracer, InputTokensAreIdsThenPositions) {
  const auto records =
      watch(2, 2, json{{"entries", {{{"point", "InputTokens"}, {"rows", 2}}}}}, at::kFloat);
  ASSERT_EQ(records.size(), 1u);
  const at::Tensor expected = at::arange(40, at::kInt).view({2, 4, 5}).narrow(1, 0, 2);
  EXPECT_TRUE(at::equal(records[0].values, expected));
}

TEST(Tracer, NarrowDtypesAreRoundedOnce) {
  const json plan = json::parse(
      R"({"entries": [{"point": "HiddenStates", "compressor": {"kind": "none"}, "dtype": "bf16"}]})");
  const auto records = watch(1, 8, plan, at::kFloat);
  const at::Tensor full = logical(key_of("HiddenStates", 1), 64, at::kFloat).narrow(0, 0, 1);
  EXPECT_TRUE(at::equal(records[0].values, full.to(at::kBFloat16)));
}

TEST(Tracer, NothingIsSentWhereThePlanDoesNotAsk) {
  const json every_fourth = json{{"entries", {{{"point", "QKV"}, {"every", 4}}}}};
  EXPECT_TRUE(watch(2, 8, every_fourth, at::kFloat).empty());
  const json eval_only = json{{"entries", {{{"point", "QKV"}, {"phases", {"eval"}}}}}};
  EXPECT_TRUE(watch(2, 8, eval_only, at::kFloat).empty());
}

TEST(Tracer, OnlyEntriesThatSomebodyTakesAreCaptured) {
  const json plan = json::parse(R"({"entries": [
      {"point": "QKV", "compressor": {"kind": "tile", "tiles": 4}},
      {"point": "HiddenStates"},
      {"point": "HiddenStates", "prompts": "probes"},
      {"point": "MLP1", "compressor": {"kind": "top_tokens", "columns": [5]}}]})");
  const auto entries_of = [&](int ranks, std::uint64_t demand, const ForwardScope& scope) {
    Collector collector;
    comm::run_local(ranks, [&](const comm::ProcessGroup& group) {
      const PlanContext about = context(ranks, 8);
      Tracer tracer(about, {}, group, group.rank() == 0 ? &collector : nullptr);
      tracer.set_plan(plan_of(plan, about));
      tracer.set_demand(demand);
      const at::Tensor ids = at::arange(20, at::kLong).view({4, 5});
      EXPECT_EQ(tracer.wants(key_of("HiddenStates", 1), scope),
                scope.prompt_set > 0 || (demand & 2U) != 0);
      Pass pass = tracer.begin(scope);
      pass.set_text({.tokens = ids, .targets = {}});
      for (const char* name : {"QKV", "HiddenStates", "MLP1"}) {
        const points::PlaceKey place = key_of(name, 1);
        const points::Place& point = about.places->rows()[place.row];
        const at::Tensor whole = logical(place, point.features, at::kFloat);
        const bool is_shard = point.placement.kind == mesh::Placement::Kind::kShard;
        pass.capture(place, is_shard ? comm::take_shard(whole, point.placement, group.rank(), ranks)
                                     : whole);
      }
      pass.end_forward();
      pass.finish();
    });
    std::vector<std::uint32_t> entries;
    for (const Record& record : collector.all) entries.push_back(record.header.entry);
    return entries;
  };
  const ForwardScope train{6, 0, 0, Phase::kTrain}, probes{6, 0, 0, Phase::kEval, 1};
  for (const int ranks : {1, 2}) {
    EXPECT_THAT(entries_of(ranks, Demand::kAll, train), testing::ElementsAre(0, 1, 3));
    EXPECT_THAT(entries_of(ranks, 0b10, train), testing::ElementsAre(1, 3));
    EXPECT_THAT(entries_of(ranks, 0b101, train), testing::ElementsAre(0, 3));
    EXPECT_THAT(entries_of(ranks, 0, train), testing::ElementsAre(3)) << "the list is kept";
    EXPECT_THAT(entries_of(ranks, 0, probes), testing::ElementsAre(2)) << "prompts always are";
  }
}

TEST(Tracer, TheMicroBatchesOfAnEvaluationCountOn) {
  Collector collector;
  PlanContext about = context(1, 8);
  about.micro_batches = 3;
  Tracer tracer(about, {}, comm::ProcessGroup(), &collector);
  const json plan = {
      {"entries", {{{"point", "MLP2"}, {"phases", {"eval"}}, {"eval_forwards", "all"}}}}};
  tracer.set_plan(plan_of(plan, about));
  for (std::int64_t batch = 0; batch < 2; ++batch) {
    for (std::int64_t micro = 0; micro < 3; ++micro) {
      Pass pass = tracer.begin({7, micro, 0, Phase::kEval, 0, batch});
      pass.capture(key_of("MLP2", 1), at::ones({2, 5, 64}));
      pass.end_forward();
      pass.finish();
    }
  }
  ASSERT_EQ(collector.all.size(), 6u);
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_EQ(collector.all[i].header.micro_batch, i);
}

TEST(Tracer, ACaptureThatFailsIsToldAndTheRestGoesOn) {
  Collector collector;
  const PlanContext about = context(1, 8);
  Tracer tracer(about, {}, comm::ProcessGroup(), &collector);
  const json plan = {{"entries", {{{"point", "HiddenStates"}}, {{"point", "MLP2"}}}}};
  tracer.set_plan(plan_of(plan, about));
  for (int step = 1; step <= 2; ++step) {
    Pass pass = tracer.begin({step, 0, 0, Phase::kTrain});
    pass.capture(key_of("HiddenStates", 1), at::empty({2, 5, 64}, at::kMeta));
    pass.capture(key_of("MLP2", 1), at::ones({2, 5, 64}));
    pass.end_forward();
    pass.finish();
  }
  ASSERT_EQ(collector.all.size(), 2u);
  EXPECT_EQ(collector.all[0].header.entry, 1u);
  ASSERT_EQ(collector.events.size(), 1u);
  EXPECT_THAT(collector.events[0].second["message"].get<std::string>(),
              testing::HasSubstr("plan entry 0 (HiddenStates) was switched off"));
  EXPECT_THAT(tracer.take_switched_off(), testing::ElementsAre(0u));
  EXPECT_THAT(tracer.take_switched_off(), testing::IsEmpty());
}

TEST(Tracer, WhatCannotBeMadeOnOneRankIsToldAndTheRestGoesOn) {
  for (const int failing : {0, 1}) {
    Collector collector;
    comm::run_local(2, [&](const comm::ProcessGroup& group) {
      const PlanContext about = context(2, 8);
      Tracer tracer(about, {}, group, group.rank() == 0 ? &collector : nullptr);
      const json plan = {{"entries",
                          {{{"point", "RawAttentionScore"}, {"rows", 0}},
                           {{"point", "InputTokens"}},
                           {{"point", "MLP2"}}}}};
      tracer.set_plan(plan_of(plan, about));
      const auto make = [&](const at::Tensor& good) {
        if (group.rank() == failing) throw std::runtime_error("no memory left");
        return good;
      };
      for (int step = 1; step <= 2; ++step) {
        Pass pass = tracer.begin({step, 0, 0, Phase::kTrain});
        pass.capture_derived(key_of("InputTokens", 0), {2, 4, 5}, at::kLong, [&] {
          return make(at::zeros({2, 4, 5}, at::kLong));
        });
        pass.capture_derived(key_of("RawAttentionScore", 1), {4, 4, 5, 5}, at::kFloat, [&] {
          return make(at::ones({4, 4, 5, 5}));
        });
        pass.capture(key_of("MLP2", 1), at::ones({4, 5, 64}));
        pass.end_forward();
        pass.finish();
      }
    });
    std::map<std::uint32_t, int> records;
    for (const auto& record : collector.all) ++records[record.header.entry];
    // Of the ids the leader's are sent alone.
    const std::map<std::uint32_t, int> expected =
        failing == 0 ? std::map<std::uint32_t, int>{{2, 2}}
                     : std::map<std::uint32_t, int>{{1, 2}, {2, 2}};
    EXPECT_EQ(records, expected);
    const std::string told = failing == 0 ? "no memory left" : "tensor rank 1: no memory left";
    ASSERT_EQ(collector.events.size(), failing == 0 ? 2U : 1U);
    EXPECT_THAT(collector.events[0].second["message"].get<std::string>(), testing::HasSubstr(told));
  }
}

// A program put a constant behind it: layer 1's has no way to the loss.
TEST(Tracer, AGradientThatTheLossDoesNotDependOnHasNoRecordAndTheOthersGoOn) {
  Collector collector;
  comm::run_local(2, [&](const comm::ProcessGroup& group) {
    const PlanContext about = context(2, 8);
    Tracer tracer(about, {}, group, group.rank() == 0 ? &collector : nullptr);
    tracer.set_plan(
        plan_of({{"entries", {{{"point", "HiddenStates"}, {"direction", "gradient"}}}}}, about));
    for (int step = 1; step <= 2; ++step) {
      Pass pass = tracer.begin({step, 0, 0, Phase::kTrain});
      const at::Tensor lost = at::ones({4, 5, 64}).requires_grad_(true);
      const at::Tensor used = at::ones({4, 5, 64}).requires_grad_(true);
      pass.capture(key_of("HiddenStates", 1), lost);
      pass.capture(key_of("HiddenStates", 2), used);
      pass.end_forward();
      used.sum().backward();
      pass.end_backward();
      pass.finish();
    }
    EXPECT_THAT(tracer.take_switched_off(), testing::IsEmpty());
  });
  EXPECT_THAT(collector.events, testing::IsEmpty());
  ASSERT_EQ(collector.all.size(), 2u);
  for (const auto& record : collector.all) EXPECT_EQ(record.header.layer, 2);
}

TEST(Tracer, AGradientThatIsMadeIsSentOrToldAndTheBackwardGoesOn) {
  for (const bool fails : {false, true}) {
    Collector collector;
    comm::run_local(2, [&](const comm::ProcessGroup& group) {
      const PlanContext about = context(2, 8);
      Tracer tracer(about, {}, group, group.rank() == 0 ? &collector : nullptr);
      const json entry = {{"point", "RawAttentionScore"},
                          {"rows", 0},
                          {"compressor", {{"kind", "none"}}},
                          {"direction", "gradient"}};
      tracer.set_plan(plan_of({{"entries", {entry}}}, about));
      Pass pass = tracer.begin({1, 0, 0, Phase::kTrain});
      EXPECT_EQ(pass.rows_wanted(key_of("RawAttentionScore", 1), 4), 0);
      EXPECT_EQ(pass.rows_wanted(key_of("RawAttentionScore", 1), 4, true), 4);
      const at::Tensor x = at::ones({4, 4, 5, 2}).requires_grad_(true);
      const at::Tensor y = 1 * x;
      const auto make = [&](const at::Tensor& gradient) {
        if (fails && group.rank() == 1) throw std::runtime_error("no memory left\nhere and there");
        return gradient.sum(-1, true).expand({4, 4, 5, 5});
      };
      pass.capture_derived_gradient(key_of("RawAttentionScore", 1),
                                    {{4, 4, 5, 5}, at::kFloat, y, make});
      pass.end_forward();
      (3 * y).sum().backward();
      pass.end_backward();
      pass.finish();
      EXPECT_TRUE(at::equal(x.grad(), at::full_like(x, 3)));
    });
    if (fails) {
      EXPECT_TRUE(collector.all.empty());
      ASSERT_EQ(collector.events.size(), 1U);
      EXPECT_THAT(collector.events[0].second["message"].get<std::string>(),
                  testing::EndsWith("switched off: tensor rank 1: no memory left"));
    } else {
      ASSERT_EQ(collector.all.size(), 1U);
      EXPECT_TRUE(collector.events.empty());
      EXPECT_TRUE(at::equal(collector.all[0].values, at::full({4, 8, 5, 5}, 6.0F)));
    }
  }
}

// MPI would write rank 1's bytes behind the end of rank 0's buffer.
TEST(Tracer, RanksThatLayOutAPassOtherwiseGatherNothingAndSwitchItsEntriesOff) {
  for (const std::string direction : {"value", "gradient"}) {
    Collector collector;
    comm::run_local(2, [&](const comm::ProcessGroup& group) {
      const PlanContext about = context(2, 8);
      Tracer tracer(about, {}, group, group.rank() == 0 ? &collector : nullptr);
      const json entry = {
          {"point", "MLP1"},
          {"direction", direction},
          {"compressor", {{"kind", "tile"}, {"tiles", group.rank() == 0 ? 7 : 96}}}};
      tracer.set_plan(
          plan_of({{"entries", {entry, {{"point", "QKV"}, {"phases", {"eval"}}}}}}, about));
      for (int step = 1; step <= 2; ++step) {
        Pass pass = tracer.begin({step, 0, 0, Phase::kTrain});
        const at::Tensor x = at::ones({4, 5, 168}).requires_grad_(true);
        const at::Tensor y = 2 * x;
        pass.capture(key_of("MLP1", 1), y);
        pass.end_forward();
        y.sum().backward();
        pass.end_backward();
        pass.finish();
      }
      EXPECT_THAT(tracer.take_switched_off(), testing::ElementsAre(0U));
    });
    EXPECT_THAT(collector.all, testing::IsEmpty());
    ASSERT_EQ(collector.events.size(), 1U);
    EXPECT_THAT(collector.events[0].second["message"].get<std::string>(),
                testing::HasSubstr("tensor ranks 0 and 1 disagree about the bytes of a pass"));
  }
}

TEST(Tracer, AnEntryThatTakesTooLongOnAnyRankIsSwitchedOff) {
  Collector collector;
  comm::run_local(2, [&](const comm::ProcessGroup& group) {
    PlanContext about = context(2, 8);
    about.limits.max_entry_seconds = group.rank() == 1 ? 0.0 : 60.0;
    Tracer tracer(about, {}, group, group.rank() == 0 ? &collector : nullptr);
    tracer.set_plan(plan_of({{"entries", {{{"point", "MLP1"}}, {{"point", "MLP2"}}}}}, about));
    Pass pass = tracer.begin({});
    pass.capture(key_of("MLP1", 1), at::ones({4, 5, 168}));
    pass.capture(key_of("MLP2", 1), at::ones({4, 5, 64}));
    pass.end_forward();
    pass.finish();
    if (group.rank() != 0) return;
    EXPECT_THAT(tracer.take_switched_off(), testing::ElementsAre(0u));
  });
  ASSERT_EQ(collector.events.size(), 1u);
  EXPECT_THAT(collector.events[0].second["message"].get<std::string>(),
              testing::HasSubstr("of CPU time in one pass"));
}

TEST(Tracer, WatchingLeavesGradientsAlone) {
  const PlanContext about = context(1, 8);
  const auto gradient = [&](bool watched) {
    Collector collector;
    Tracer tracer(about, {}, comm::ProcessGroup(), &collector);
    if (watched)
      tracer.set_plan(plan_of(
          {{"entries",
            {{{"point", "HiddenStates"}}, {{"point", "HiddenStates"}, {"direction", "gradient"}}}}},
          about));
    at::Tensor x = logical(key_of("HiddenStates", 1), 64, at::kFloat).set_requires_grad(true);
    Pass pass = tracer.begin({1, 0, 0, Phase::kTrain});
    const at::Tensor y = x.exp();
    pass.capture(key_of("HiddenStates", 1), y);
    pass.end_forward();
    EXPECT_EQ(y.grad_fn()->name(), "ExpBackward0");
    y.sum().backward();
    pass.end_backward();
    pass.finish();
    EXPECT_EQ(collector.all.size(), watched ? 2u : 0u);
    return x.grad();
  };
  EXPECT_TRUE(at::equal(gradient(true), gradient(false)));
}

// The records of one forward in the given scope, on one rank.
std::vector<Record> watch_one(const json& entry, const ForwardScope& scope,
                              const at::Tensor& hidden) {
  Collector collector;
  const PlanContext about = context(1, 8);
  Tracer tracer(about, {}, comm::ProcessGroup(), &collector);
  tracer.set_plan(plan_of({{"entries", {entry}}}, about));
  Pass pass = tracer.begin(scope);
  pass.capture(key_of("HiddenStates", 2), hidden);
  pass.end_forward();
  pass.finish();
  return std::move(collector.all);
}

TEST(Tracer, RowsAndTokensAreCutOut) {
  const at::Tensor hidden = logical(key_of("HiddenStates", 2), 64, at::kFloat);
  const json entry = {{"point", "HiddenStates"},
                      {"rows", {1, 3}},
                      {"tokens", {2, 4}},
                      {"compressor", {{"kind", "none"}}}};
  const auto records = watch_one(entry, {1, 0, 8, Phase::kTrain}, hidden);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].header.first_row, 9u);
  EXPECT_TRUE(at::equal(records[0].values, hidden.narrow(0, 1, 2).narrow(1, 2, 2)));
  // A shorter pass has one of the tokens, a smaller one no row.
  EXPECT_EQ(watch_one(entry, {}, hidden.narrow(1, 0, 3))[0].values.size(1), 1);
  EXPECT_TRUE(watch_one(entry, {}, hidden.narrow(0, 0, 1)).empty());
}

TEST(Tracer, MicroBatchesEvaluationsAndPromptsAreToldApart) {
  const at::Tensor hidden = logical(key_of("HiddenStates", 2), 64, at::kFloat);
  const json second = {{"point", "HiddenStates"}, {"micro_batches", "1"}};
  const json prompts = {{"point", "HiddenStates"}, {"prompts", "probes"}};
  const ForwardScope first_micro{1, 0, 0, Phase::kTrain}, second_micro{1, 1, 0, Phase::kTrain},
      evaluation{1, 0, 0, Phase::kEval}, probes{1, 0, 0, Phase::kEval, 1};
  const std::pair<json, ForwardScope> pairs[] = {{second, second_micro}, {prompts, probes}};
  for (const auto& [entry, own] : pairs) {
    for (const ForwardScope& scope : {first_micro, second_micro, evaluation, probes}) {
      const bool is_own = scope.micro_batch == own.micro_batch && scope.phase == own.phase &&
                          scope.prompt_set == own.prompt_set;
      const auto records = watch_one(entry, scope, hidden);
      ASSERT_EQ(records.size(), is_own ? 1u : 0u) << entry;
      if (!is_own) continue;
      EXPECT_EQ(records[0].header.micro_batch, own.micro_batch);
      EXPECT_EQ(records[0].header.prompt_set, own.prompt_set);
    }
  }
}

TEST(Tracer, GradientsOfPartialSumsAreSummedAndOfShardsJoined) {
  // One key group on four ranks: each rank's gradient of it is a partial sum.
  Collector collector;
  comm::run_local(4, [&](const comm::ProcessGroup& group) {
    const PlanContext about = context(4, 1);
    Tracer tracer(about, {1, {group.rank(), 0, 0}}, group,
                  group.rank() == 0 ? &collector : nullptr);
    tracer.set_plan(plan_of(
        {{"entries",
          {{{"point", "Key"}, {"direction", "gradient"}, {"compressor", {{"kind", "none"}}}},
           {{"point", "Query"}, {"direction", "gradient"}, {"compressor", {{"kind", "none"}}}}}}},
        about));
    Pass pass = tracer.begin({1, 0, 0, Phase::kTrain});
    const at::Tensor x = at::ones({4, 5, 1}).set_requires_grad(true);
    const at::Tensor key = x.expand({4, 5, 8}) * 2, query = x.expand({4, 5, 16}) * 3;
    pass.capture(key_of("Key", 1), key);
    pass.capture(key_of("Query", 1), query);
    pass.end_forward();
    (key.sum() * (group.rank() + 1) + (query * group.rank()).sum()).backward();
    pass.end_backward();
    pass.finish();
  });
  ASSERT_EQ(collector.all.size(), 2u);
  EXPECT_EQ(collector.messages, 1);
  EXPECT_EQ(collector.all[0].header.direction, protocol::RecordDirection::kGradient);
  EXPECT_TRUE(at::equal(collector.all[0].values, at::full({1, 5, 8}, 10.0)));
  const at::Tensor of_ranks = at::arange(4, at::kFloat).repeat_interleave(16).expand({1, 5, 64});
  EXPECT_TRUE(at::equal(collector.all[1].values, of_ranks));
}

TEST(Tracer, CodesOfOneByteAreWithinHalfAStep) {
  at::Tensor hidden = logical(key_of("HiddenStates", 2), 64, at::kFloat).clone();
  hidden[0][1][5] = std::numeric_limits<float>::quiet_NaN();
  hidden[0][2][6] = std::numeric_limits<float>::infinity();
  hidden[0][2][7] = -std::numeric_limits<float>::infinity();
  const auto records = watch_one(
      {{"point", "HiddenStates"}, {"compressor", {{"kind", "none"}}}, {"dtype", "u8"}}, {}, hidden);
  ASSERT_EQ(records.size(), 1u);
  const at::Tensor sent = hidden[0];
  const at::Tensor finite = sent.nan_to_num(0, 0, 0);
  const at::Tensor bound = (finite.amax(-1, true) - finite.amin(-1, true)) / 504 * 1.001 + 1e-7;
  const at::Tensor error = (records[0].values[0] - sent).abs();
  const at::Tensor is_finite = sent.isfinite();
  EXPECT_TRUE((error <= bound).logical_or(is_finite.logical_not()).all().item<bool>());
  EXPECT_TRUE(std::isnan(records[0].values[0][1][5].item<float>()));
  EXPECT_EQ(records[0].values[0][2][6].item<float>(), std::numeric_limits<float>::infinity());
  EXPECT_EQ(records[0].values[0][2][7].item<float>(), -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace tt::trace
