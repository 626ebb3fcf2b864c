// Several passes open at once, and layers that run again in the backward pass, of a GPT that is
// watched and changed: everything is as with one pass after the other and without recomputation,
// byte for byte.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tensor_tracer/comm/world.h"
#include "tensor_tracer/intervene/engine.h"
#include "tensor_tracer/protocol/record.h"
#include "tensor_tracer/train/forward_runner.h"
#include "tensor_tracer/train/plan_context.h"

namespace tt::train {
namespace {

using nlohmann::json;

constexpr std::int64_t kMicroBatches = 8;
constexpr std::int64_t kInFlight = 4;

// Values and gradients that are read, written, saved and read back; a mask, which is counted on
// shards; a value that waits for a later layer; a bias that is written by the weight before it; a
// layer that is left out.
const char* const kProgram =
    "h = layers[1].output\n"
    "layers[1].output = h + 0.1 * noise(layers[1].output)\n"
    "if layers[1].mlp.activation > 0.1: layers[1].mlp.activation = 0.1\n"
    "layers[3].mlp.output += 0.5 * h\n"
    "layers[1].mlp.fc1.bias += layers[1].mlp.fc1.weight.mean()\n"
    "if h.mean() > -100: skip(layers[2])\n"
    "save(layers[1].output.mean(), \"mean\")\n"
    "layers[3].mid += 0.01 * saved(\"mean\")\n"
    "save(layers[1].attention.output.grad.norm(), \"norm\")\n"
    "layers[3].output.grad *= 0.5\n"
    "layers[1].mid.grad = layers[1].mid.grad.clamp(-0.001, 0.001)\n";

const json kPlan = json::parse(R"({"entries": [
    {"point": "QKV", "rows": 0, "micro_batches": "0-7", "compressor": {"kind": "none"}},
    {"point": "RawAttentionScore", "micro_batches": "0-7"},
    {"point": "HiddenStates", "micro_batches": "0-7", "rows": 0, "compressor": {"kind": "stats"}},
    {"point": "HiddenStates", "micro_batches": "0-7", "rows": 0, "direction": "gradient",
     "compressor": {"kind": "none"}},
    {"point": "RawAttentionScore", "micro_batches": "0-7", "direction": "gradient"},
    {"point": "MLP1", "micro_batches": "0-7", "direction": "gradient"}]})");

config::TrainConfig small_config(int tensor_ranks) {
  config::TrainConfig config;
  config.model.num_layers = 3;
  config.model.hidden_size = 32;
  config.model.num_attention_heads = 4;
  config.model.seq_length = 16;
  config.model.hidden_dropout = 0.1;
  config.tensor_model_parallel_size = tensor_ranks;
  config.micro_batch_size = 2;
  config.global_batch_size = 2 * kMicroBatches;
  return config;
}

data::TextCorpus make_corpus() {
  const auto path = std::filesystem::path(testing::TempDir()) /
                    ("open_passes_" + std::to_string(::getpid()) + ".txt");
  std::ofstream(path) << [] {
    std::string text;
    for (int i = 0; i < 4096; ++i) text += static_cast<char>('a' + (i * i / 7) % 26);
    return text;
  }();
  auto corpus = data::TextCorpus::open({path.string()}, {});
  std::filesystem::remove(path);
  return std::move(corpus).value();
}

/// What a run leaves: the records by what they are of, and all that must be the same.
struct Left {
  using Key = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, std::uint16_t>;
  std::map<Key, std::pair<protocol::RecordHeader, std::string>> records;
  std::vector<at::Tensor> gradients;
  std::vector<double> losses;
  std::vector<json> reports;
  std::vector<std::string> saved;
};

class Collector : public trace::TraceSink {
 public:
  explicit Collector(Left& left) : left_(left) {}
  void send_records(std::string records) noexcept override {
    protocol::RecordReader reader(records);
    while (const auto record = reader.next()) {
      protocol::RecordHeader header = record->header;
      header.sequence = header.time = header.header_crc = 0;
      const auto* payload = reinterpret_cast<const char*>(record->payload.data());
      const bool is_new =
          left_.records
              .emplace(Left::Key{header.step, header.micro_batch, header.entry, header.layer},
                       std::pair(header, std::string(payload, record->payload.size())))
              .second;
      EXPECT_TRUE(is_new) << "captured twice";
    }
  }
  void send_event(std::string_view, json params) noexcept override { ADD_FAILURE() << params; }

 private:
  Left& left_;
};

/// One rank's model with its tracer and its programs.
class Rank {
 public:
  Rank(const comm::ProcessGroup& world, const config::TrainConfig& config, Left& left)
      : config_(config),
        groups_(make_groups(world, {.tensor = world.size()})),
        plan_context_(make_plan_context(config, groups_.shape, nullptr, {})),
        blend_(make_blend(config.model.seq_length)),
        batches_(blend_, config.model.seq_length,
                 config::parse_split(config.data.split).value().second, 1),
        gpt_({groups_.tensor, 1, at::kFloat, at::kFloat}, config.model, 2),
        collector_(left),
        left_(left),
        tracer_(plan_context_, {7, groups_.coordinates}, groups_.tracer,
                world.rank() == 0 ? &collector_ : nullptr),
        engine_(intervene::make_engine(intervention_context(), groups_.tensor, groups_.world)),
        runner_(config_, groups_, gpt_, batches_, engine_.get()) {
    auto plan = trace::parse_plan(kPlan, plan_context_, 1);
    EXPECT_TRUE(plan.ok()) << to_string(plan.error());
    tracer_.set_plan(std::make_shared<const trace::Plan>(std::move(plan).value()));
    const auto answer =
        engine_->request(protocol::ApplyProgram{.name = "p", .program = kProgram}, 1);
    EXPECT_TRUE(answer.ok()) << to_string(answer.error());
    EXPECT_TRUE(engine_->prepare(engine_->take_changes(1)).ok());
    engine_->install(true);
  }

  ForwardRunner& runner() { return runner_; }
  trace::Tracer& tracer() { return tracer_; }
  trace::InterventionHooks& engine() { return *engine_; }
  const model::Gpt& gpt() const { return gpt_; }

  void end_step(std::int64_t step) {
    if (auto report = engine_->report(step)) left_.reports.push_back(std::move(*report));
    std::vector<std::string> saved;
    for (const json& one : engine_->take_saved()) saved.push_back(one.dump());
    std::ranges::sort(saved);
    std::ranges::copy(saved, std::back_inserter(left_.saved));
  }
  void keep_gradients() {
    for (const nn::Parameter& parameter : gpt_.parameters()) {
      const at::Tensor& gradient = parameter.local.grad();
      left_.gradients.push_back(gradient.defined() ? gradient : at::Tensor(at::zeros({0})));
    }
  }

 private:
  static data::Blend make_blend(std::int64_t seq_length) {
    static const data::TextCorpus corpus = make_corpus();
    data::Blend blend(1);
    blend.front().samples = std::make_unique<data::StreamSamples>(
        std::make_shared<data::ByteTokens>(corpus), seq_length);
    return blend;
  }
  intervene::Context intervention_context() const {
    intervene::Context context;
    context.model.places = plan_context_.places;
    context.tensor_ranks = groups_.tensor.size();
    context.tensor_rank = groups_.tensor.rank();
    context.micro_batch_size = 2;
    context.seq_length = config_.model.seq_length;
    context.micro_batches = kMicroBatches;
    context.head_size = config_.model.head_size();
    context.seed = 5;
    return context;
  }

  const config::TrainConfig config_;
  const Groups groups_;
  const trace::PlanContext plan_context_;
  const data::Blend blend_;
  data::Batches batches_;
  model::Gpt gpt_;
  Collector collector_;
  Left& left_;
  trace::Tracer tracer_;
  const std::unique_ptr<trace::InterventionHooks> engine_;
  ForwardRunner runner_;
};

/// What `use` leaves on rank 0.
Left left_by(int tensor_ranks, const std::function<void(Rank&, Left&)>& use) {
  std::vector<Left> left(static_cast<std::size_t>(tensor_ranks));
  comm::run_local(tensor_ranks, [&](const comm::ProcessGroup& world) {
    at::set_num_threads(1);
    Left& own = left[static_cast<std::size_t>(world.rank())];
    Rank rank(world, small_config(tensor_ranks), own);
    use(rank, own);
    rank.keep_gradients();
  });
  return std::move(left.front());
}

void expect_same(const Left& found, const Left& wanted) {
  EXPECT_EQ(found.losses, wanted.losses);
  EXPECT_EQ(found.reports, wanted.reports);
  EXPECT_EQ(found.saved, wanted.saved);
  ASSERT_EQ(found.gradients.size(), wanted.gradients.size());
  for (std::size_t i = 0; i < wanted.gradients.size(); ++i)
    EXPECT_TRUE(at::equal(found.gradients[i], wanted.gradients[i])) << "parameter " << i;
  ASSERT_EQ(found.records.size(), wanted.records.size());
  for (const auto& [key, record] : wanted.records) {
    const auto other = found.records.find(key);
    ASSERT_NE(other, found.records.end());
    EXPECT_TRUE(other->second == record) << "micro-batch " << std::get<1>(key) << ", entry "
                                         << std::get<2>(key) << ", layer " << std::get<3>(key);
  }
}

/// Forwards (true) and backwards of a step, with the number of their micro-batch.
using Schedule = std::vector<std::pair<bool, std::int64_t>>;

Schedule one_after_the_other() {
  Schedule schedule;
  for (std::int64_t micro = 0; micro < kMicroBatches; ++micro)
    schedule.insert(schedule.end(), {{true, micro}, {false, micro}});
  return schedule;
}

// As the first stage of a pipeline of four: warm-up, one forward one backward, drain.
Schedule one_forward_one_backward() {
  Schedule schedule;
  for (std::int64_t micro = 0; micro < kInFlight; ++micro) schedule.emplace_back(true, micro);
  for (std::int64_t micro = 0; micro < kMicroBatches; ++micro) {
    schedule.emplace_back(false, micro);
    if (micro + kInFlight < kMicroBatches) schedule.emplace_back(true, micro + kInFlight);
  }
  return schedule;
}

Left run(int tensor_ranks, const Schedule& schedule) {
  return left_by(
      tensor_ranks,
      [&](Rank& rank, Left& left) {
        for (std::int64_t step = 1; step <= 2; ++step) {
          const GlobalBatch batch{.step = step, .drops = true, .has_backward = true};
          std::vector<OpenForward> open(kMicroBatches);
          for (const auto& [is_forward, micro] : schedule) {
            OpenForward& one = open[static_cast<std::size_t>(micro)];
            if (is_forward) {
              one = rank.runner().forward(batch, micro, &rank.tracer());
              left.losses.push_back(one.loss.item<double>());
            } else {
              rank.runner().backward(one);
            }
          }
          // The last gather is waited for first.
          for (auto one = open.rbegin(); one != open.rend(); ++one) one->pass.finish();
          rank.end_step(step);
        }
      });
}

TEST(OpenPasses, FourMicroBatchesInFlightLeaveWhatOneAfterTheOtherLeaves) {
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(std::to_string(ranks) + " tensor ranks");
    const Left wanted = run(ranks, one_after_the_other());
    // Five records of each layer, but of layer 2, of which the hidden states alone are met.
    EXPECT_EQ(wanted.records.size(), 2U * kMicroBatches * (6U * 2U + 2U));
    EXPECT_EQ(wanted.reports.size(), 2U);
    EXPECT_EQ(wanted.reports.back()["programs"][0]["failed"], 0);
    EXPECT_EQ(wanted.reports.back()["programs"][0]["waiting"], 0);
    EXPECT_EQ(wanted.saved.size(), 2U * kMicroBatches * 2U);
    expect_same(run(ranks, one_forward_one_backward()), wanted);
  }
}

/// Runs a function without a graph, and once more with one in the backward pass.
class Checkpoint : public torch::autograd::Function<Checkpoint> {
 public:
  using Run = std::function<at::Tensor()>;
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& /*leaf*/,
                            const Run* run) {
    ctx->saved_data["run"] = reinterpret_cast<std::int64_t>(run);
    return (*run)();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& gradients) {
    const at::AutoGradMode with_graph(true);
    const auto* run = reinterpret_cast<const Run*>(ctx->saved_data["run"].toInt());
    (*run)().backward(gradients[0]);
    return {at::zeros({}), at::Tensor()};
  }
};

enum class Recompute { kNothing, kWithoutAGraphBefore, kBesideTheGraph };

// Two steps of one micro-batch, so that the second one reads what the first one saved.
Left run(int tensor_ranks, Recompute how) {
  return left_by(
      tensor_ranks,
      [&](Rank& rank, Left& left) {
        for (std::int64_t step = 1; step <= 2; ++step) {
          const at::Tensor tokens = (at::arange(32).view({2, 16}) * 7 + step).remainder(200);
          const trace::ForwardScope scope{.step = step, .recomputes = how != Recompute::kNothing};
          trace::Pass pass = rank.tracer().begin(scope);
          const auto interventions = rank.engine().begin(scope, tokens);
          const nn::ForwardContext context{pass, 1, step, 0, true, interventions.get()};
          const Checkpoint::Run forward = [&] { return rank.gpt().loss(tokens, tokens, context); };
          const at::Tensor leaf = at::zeros({}).requires_grad_(true);
          const at::Tensor loss = how == Recompute::kWithoutAGraphBefore
                                      ? Checkpoint::apply(leaf, &forward)
                                      : forward();
          pass.end_forward();
          if (how == Recompute::kBesideTheGraph) forward();
          loss.backward();
          pass.end_backward();
          interventions->end();
          pass.finish();
          left.losses.push_back(loss.item<double>());
          rank.end_step(step);
        }
      });
}

TEST(OpenPasses, ARecomputationInTheBackwardIsCapturedAndCountedOnce) {
  for (const int ranks : {1, 2}) {
    const Left wanted = run(ranks, Recompute::kNothing);
    EXPECT_EQ(wanted.records.size(), 2U * (6U * 2U + 2U));
    for (const Recompute how : {Recompute::kWithoutAGraphBefore, Recompute::kBesideTheGraph}) {
      SCOPED_TRACE(std::to_string(ranks) + " tensor ranks, " +
                   (how == Recompute::kBesideTheGraph ? "beside the graph" : "without a graph"));
      expect_same(run(ranks, how), wanted);
    }
  }
}

}  // namespace
}  // namespace tt::train
