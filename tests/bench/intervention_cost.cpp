// Times forwards of a GPT without and with a program, on one thread, at
// scripts/bench/interventions.py's word. Arguments: layers hidden heads vocabulary batch sequence.
// Standard input, one line each:
//
//   weights FILE       writes all parameters, float32 one behind the other
//   logits KIND FILE   writes the logits of one forward of this kind
//   time N             does N cycles of a forward of each kind; answers with the microseconds,
//   cycle by
//                      cycle: of bare, steer, patch, save by the wall's clock, then CPU time
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <array>
#include <chrono>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tensor_tracer/base/check.h"
#include "tensor_tracer/intervene/engine.h"
#include "tensor_tracer/model/gpt.h"
#include "tensor_tracer/trace/tracer.h"

namespace {

using namespace tt;
using Clock = std::chrono::steady_clock;

struct Kind {
  std::string name;
  std::string program;
};

const std::array<Kind, 4> kKinds = {{
    {"bare", ""},
    {"steer", "layers[6].output += 4.0 * vector(\"v\")[6]\n"},
    {"patch", "layers[6].output[0, 5] = layers[6].output[0, 9]\n"},
    {"save", "save(layers[layer].output, \"h\", send=False)\n"},
}};

// The rows that Python makes too: (n % 7 - 3) / 64.
class Vectors : public trace::VectorLibrary {
 public:
  explicit Vectors(const config::ModelConfig& model) : model_(model) {}
  std::vector<std::string> names() override { return {"v"}; }
  base::Result<std::shared_ptr<const trace::DirectionVector>> find(
      const std::string& name) override {
    auto vector = std::make_shared<trace::DirectionVector>();
    vector->name = name;
    vector->hidden_size = model_.hidden_size;
    vector->has_embedding_row = true;
    for (std::int64_t i = 0; i < (model_.num_layers + 1) * model_.hidden_size; ++i)
      vector->rows.push_back(static_cast<float>(i % model_.hidden_size % 7 - 3) / 64.0F);
    return std::shared_ptr<const trace::DirectionVector>(vector);
  }

 private:
  const config::ModelConfig model_;
};

struct Shape {
  config::ModelConfig model;
  std::int64_t batch = 1;
};

Shape read_shape(char** argv) {
  const auto number = [argv](int index) { return std::int64_t{std::stol(argv[index])}; };
  Shape shape;
  shape.model.num_layers = number(1);
  shape.model.hidden_size = number(2);
  shape.model.num_attention_heads = number(3);
  shape.model.vocab_size = number(4);
  shape.batch = number(5);
  shape.model.seq_length = number(6);
  return shape;
}

intervene::Context make_context(const Shape& shape, Vectors& vectors) {
  intervene::Context context;
  context.model.places = model::describe_model(shape.model, 1).places();
  context.vectors = &vectors;
  context.micro_batch_size = shape.batch;
  context.seq_length = shape.model.seq_length;
  context.head_size = shape.model.head_size();
  return context;
}

// One program each, none for "bare", as a run has them in force.
std::unique_ptr<trace::InterventionHooks> make_engine(const intervene::Context& context,
                                                      const std::string& program) {
  auto engine = intervene::make_engine(context, comm::ProcessGroup(), comm::ProcessGroup());
  if (program.empty()) return engine;
  const auto applied =
      engine->request(protocol::ApplyProgram{.name = "bench", .program = program}, 1);
  TT_CHECK(applied.ok(), "the program was refused: " + (applied ? "" : applied.error().message));
  TT_CHECK(engine->prepare(engine->take_changes(1)).ok(), "the program cannot be prepared");
  engine->install(true);
  return engine;
}

class Bench {
 public:
  explicit Bench(const Shape& shape)
      : vectors_(shape.model),
        gpt_({comm::ProcessGroup(), 1, at::kFloat, at::kFloat}, shape.model),
        tokens_(at::arange(shape.batch * shape.model.seq_length, at::kLong)
                    .mul(7919)
                    .remainder(shape.model.vocab_size)
                    .view({shape.batch, shape.model.seq_length})),
        tracer_({}, {}, comm::ProcessGroup(), nullptr) {
    const intervene::Context context = make_context(shape, vectors_);
    for (const Kind& kind : kKinds) engines_[kind.name] = make_engine(context, kind.program);
  }

  const model::Gpt& gpt() const { return gpt_; }

  /// As train::ForwardRunner does it.
  at::Tensor forward(const std::string& kind) {
    trace::InterventionHooks& engine = *engines_.at(kind);
    const trace::ForwardScope scope{++step_};
    trace::Pass pass = tracer_.begin(scope);
    const auto interventions = engine.begin(scope, tokens_);
    at::Tensor logits = gpt_.logits(tokens_, {pass, 1, step_, 0, false, interventions.get()});
    pass.end_forward();
    if (interventions != nullptr) interventions->end();
    return logits;
  }

 private:
  Vectors vectors_;
  model::Gpt gpt_;
  at::Tensor tokens_;
  trace::Tracer tracer_;
  std::map<std::string, std::unique_ptr<trace::InterventionHooks>> engines_;
  std::int64_t step_ = 0;
};

void write(std::ofstream& file, const at::Tensor& numbers) {
  const at::Tensor flat = numbers.contiguous();
  file.write(static_cast<const char*>(flat.const_data_ptr()),
             static_cast<std::streamsize>(flat.nbytes()));
}

void write_weights(const Bench& bench, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  for (const nn::Parameter& parameter : bench.gpt().parameters()) write(file, parameter.local);
  std::cout << "done" << std::endl;
}

void write_logits(Bench& bench, const std::string& kind, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  write(file, bench.forward(kind));
  file.close();
  std::cout << "done" << std::endl;
}

double cpu_microseconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

// Every cycle begins with another kind.
void time(Bench& bench, std::size_t cycles) {
  std::vector<double> times(cycles * 2 * kKinds.size());
  for (std::size_t cycle = 0; cycle < cycles; ++cycle) {
    double* const wall = times.data() + cycle * 2 * kKinds.size();
    double* const cpu = wall + kKinds.size();
    for (std::size_t turn = 0; turn < kKinds.size(); ++turn) {
      const std::size_t kind = (cycle + turn) % kKinds.size();
      const auto begin = Clock::now();
      const double cpu_begin = cpu_microseconds();
      bench.forward(kKinds[kind].name);
      cpu[kind] = cpu_microseconds() - cpu_begin;
      wall[kind] = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    }
  }
  for (const double microseconds : times) std::cout << microseconds << ' ';
  std::cout << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  TT_CHECK(argc == 7, "arguments: layers hidden heads vocabulary batch sequence");
  at::set_num_threads(1);
  const at::NoGradGuard no_grad;
  Bench bench(read_shape(argv));
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string what;
    std::string kind;
    std::string path;
    words >> what;
    if (what == "weights" && words >> path)
      write_weights(bench, path);
    else if (what == "logits" && words >> kind >> path)
      write_logits(bench, kind, path);
    else if (std::size_t cycles = 0; what == "time" && words >> cycles)
      time(bench, cycles);
    else
      return 2;
  }
  return 0;
}
