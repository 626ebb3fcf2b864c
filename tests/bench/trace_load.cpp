// Both ends of what a viewer sees: trace points that are passed as fast as they can be, and a
// viewer that decodes what arrives into arrays; scripts/bench/stream.py starts them.
//
//     trace_load trainer <port> <token> <micro-batch size> <sequence> <hidden> <tiles> <dtype>
//     trace_load viewer <port> <token>
//
// The trainer passes QKV, MLP1 and MLP2 of 12 layers in each step, until it is killed. The viewer
// says "ready", counts between the lines "begin" and "end" of stdin, and prints what it got
// meanwhile.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <array>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/link/hub_client.h"
#include "tensor_tracer/model/gpt.h"
#include "tensor_tracer/trace/tracer.h"
#include "tests/bench/decoding_viewer.h"
#include "tests/bench/last_word.h"

namespace tt::bench {
namespace {

constexpr int kLayers = 12;
constexpr std::array<const char*, 3> kPoints = {"QKV", "MLP1", "MLP2"};

struct Shape {
  std::int64_t batch = 1;
  std::int64_t sequence = 1;
  std::int64_t hidden = 1;
  std::int64_t tiles = 1;
  std::string dtype;
};

trace::PlanContext context_of(const Shape& shape) {
  config::ModelConfig model;
  model.num_layers = kLayers;
  model.hidden_size = shape.hidden;
  model.num_attention_heads = 4;
  model.ffn_hidden_size = 4 * shape.hidden;
  trace::PlanContext about;
  about.places = model::describe_model(model, 1, shape.batch).places();
  about.micro_batch_size = shape.batch;
  about.seq_length = shape.sequence;
  return about;
}

std::shared_ptr<const trace::Plan> plan_of(const Shape& shape, const trace::PlanContext& about) {
  nlohmann::json entries = nlohmann::json::array();
  for (const char* name : kPoints) {
    entries.push_back({{"point", name},
                       {"rows", 0},
                       {"compressor", {{"kind", "tile"}, {"tiles", shape.tiles}}},
                       {"dtype", shape.dtype}});
  }
  auto plan = trace::parse_plan({{"entries", std::move(entries)}}, about, 1);
  if (!plan) throw std::runtime_error(to_string(plan.error()));
  return std::make_shared<const trace::Plan>(std::move(plan).value());
}

// Every number of layer n is n, which the viewer looks for.
void run_trainer(int port, const std::string& token, const Shape& shape) {
  at::set_num_threads(1);
  const trace::PlanContext about = context_of(shape);
  link::HubClient client({.port = port,
                          .worker_token = token,
                          .run = {{"id", "00000000000000b1"}, {"plan", {{"number", 1}}}}});
  trace::Tracer tracer(about, {0xB1, {0, 0, 0}}, comm::ProcessGroup(), &client);
  tracer.set_plan(plan_of(shape, about));
  std::vector<std::pair<points::PlaceKey, at::Tensor>> passed;
  for (int layer = 1; layer <= kLayers; ++layer) {
    for (const char* name : kPoints) {
      const points::PlaceKey place = about.places->key(name, layer);
      const std::int64_t features = about.places->rows()[place.row].features;
      passed.emplace_back(place, at::full({shape.batch, shape.sequence, features}, float(layer)));
    }
  }
  for (std::int64_t step = 1;; ++step) {
    trace::Pass pass = tracer.begin({.step = step});
    for (const auto& [place, tensor] : passed) pass.capture(place, tensor);
    pass.end_forward();
    pass.end_backward();
    pass.finish();
  }
}

int run(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "trainer" && argc == 9) {
    run_trainer(
        std::stoi(argv[2]), argv[3],
        {std::stol(argv[4]), std::stol(argv[5]), std::stol(argv[6]), std::stol(argv[7]), argv[8]});
  } else if (mode == "viewer" && argc == 4) {
    DecodingViewer({.port = std::stoi(argv[2]), .token = argv[3]}).run();
  } else {
    std::fprintf(stderr, "usage: see the first lines of tests/bench/trace_load.cpp\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace tt::bench

int main(int argc, char** argv) {
  return tt::bench::with_last_word("trace_load", tt::bench::run, argc, argv);
}
