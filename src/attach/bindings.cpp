#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <optional>
#include <utility>

#include "src/attach/error.h"
#include "src/attach/packed.h"
#include "src/attach/run.h"
#include "tensor_tracer/trace/device_runtime.h"
#include "tensor_tracer/vectors/contrast.h"

// The classes torch.classes.tensor_tracer.Run, .Forward and .GroupSums of the Python package, whose
// modules call them. Texts are JSON. They call no function of Python, and
// PyTorch releases its lock while they run.
namespace tt::attach {
namespace {

using nlohmann::json;

/// Runs `body`; an AttachError leaves as JSON, which the Python side turns into its error.
template <typename Body>
auto with_errors(const Body& body) {
  try {
    return body();
  } catch (const AttachError& error) {
    const base::Error& one = error.error();
    throw std::runtime_error(json{
        {"code", one.code},
        {"message", one.message},
        {"where", one.where},
        {"remedy", one.remedy}}.dump());
  }
}

class BoundForward : public torch::CustomClassHolder {
 public:
  explicit BoundForward(std::shared_ptr<Forward> forward) : forward_(std::move(forward)) {}
  Forward& operator*() { return *forward_; }

 private:
  std::shared_ptr<Forward> forward_;
};

class BoundRun : public torch::CustomClassHolder {
 public:
  explicit BoundRun(const std::string& settings)
      : run_(with_errors(
            [&] { return std::make_unique<Run>(read_settings(json::parse(settings))); })) {}
  Run& operator*() { return *run_; }

 private:
  std::unique_ptr<Run> run_;
};

class BoundSums : public torch::CustomClassHolder {
 public:
  BoundSums(std::int64_t rows, std::int64_t hidden_size) : sums_(rows, hidden_size) {}
  vectors::GroupSums& operator*() { return sums_; }

 private:
  vectors::GroupSums sums_;
};

using SumsPointer = c10::intrusive_ptr<BoundSums>;
using RunPointer = c10::intrusive_ptr<BoundRun>;
using ForwardPointer = c10::intrusive_ptr<BoundForward>;

std::string hub_of(const RunPointer& run) {
  const link::HubInfo* hub = (**run).hub();
  if (hub == nullptr) return "";
  return json{{"url", hub->url},
              {"page_url", hub->page_url},
              {"port", hub->port},
              {"pid", hub->pid},
              {"token_path", hub->token_path},
              {"open_path", hub->open_path},
              {"recording", (**run).recording()}}
      .dump();
}

/// The Python side defines both operators. `model`: the number by which it knows the model.
PromptCalls prompt_calls(std::int64_t model) {
  const auto find = [](const char* name) {
    return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  };
  const auto encode =
      find("tensor_tracer::tokenize").typed<std::string(std::string_view, std::int64_t)>();
  const auto run =
      find("tensor_tracer::run_model")
          .typed<std::string(const ForwardPointer&, const at::Tensor&, std::int64_t)>();
  const auto tokenize = [=](const std::string& text) -> base::Result<std::vector<std::int64_t>> {
    const json found = json::parse(encode.call(text, model));
    if (found.contains("tokens")) return found.at("tokens").get<std::vector<std::int64_t>>();
    return error_of(found);
  };
  return {tokenize, [=](const std::shared_ptr<Forward>& forward, const at::Tensor& tokens) {
            return run.call(c10::make_intrusive<BoundForward>(forward), tokens, model);
          }};
}

std::string learn(const RunPointer& run, const std::string& description, const std::string& plan) {
  const json about = json::parse(description);
  return with_errors([&] {
    return (**run).learn(about, plan.empty() ? json() : json::parse(plan),
                         prompt_calls(about.at("prompts").at("model")));
  });
}

trace::ForwardScope scope_of(const std::vector<std::int64_t>& scope, bool is_eval) {
  return {.step = scope.at(0),
          .micro_batch = scope.at(1),
          .first_row = scope.at(2),
          .phase = is_eval ? trace::Phase::kEval : trace::Phase::kTrain,
          .batch = scope.at(3),
          .recomputes = !is_eval,
          .stage = static_cast<int>(scope.at(4))};
}

bool wants_forward(const RunPointer& run, const std::vector<std::int64_t>& scope, bool is_eval) {
  return (**run).wants(scope_of(scope, is_eval));
}

ForwardPointer begin(const RunPointer& run, const std::vector<std::int64_t>& scope, bool is_eval,
                     const at::Tensor& tokens, bool has_text) {
  return c10::make_intrusive<BoundForward>(
      (**run).begin(scope_of(scope, is_eval), tokens, has_text));
}

std::string apply_program(const RunPointer& run, const std::string& program,
                          std::int64_t next_step) {
  return with_errors([&] { return (**run).apply_program(json::parse(program), next_step).dump(); });
}

bool wants_updates(const RunPointer& run, std::int64_t step) { return (**run).wants_updates(step); }

void capture_updates(const RunPointer& run, std::int64_t step, const at::Tensor& table) {
  (**run).capture_updates(step, table);
}

void send_event(const RunPointer& run, const std::string& event, const std::string& params) {
  (**run).send_event(event, json::parse(params));
}

void bind_forward(torch::Library& library) {
  library.class_<BoundForward>("Forward")
      .def(
          "is_idle", [](const ForwardPointer& one) { return (**one).is_idle(); })
      .def(
          "has_programs", [](const ForwardPointer& one) { return (**one).has_programs(); })
      .def(
          "skips",
          [](const ForwardPointer& one, std::int64_t layer) { return (**one).skips(layer); })
      .def(
          "wanted", [](const ForwardPointer& one) { return (**one).wanted(); })
      .def(
          "acts_at",
          [](const ForwardPointer& one, std::int64_t site) { return (**one).acts_at(site); })
      .def(
          "apply", [](const ForwardPointer& one, std::int64_t site,
                      const at::Tensor& local) { return (**one).apply(site, local); })
      .def(
          "capture", [](const ForwardPointer& one, std::int64_t site, const at::Tensor& output,
                        const at::Tensor& local) { (**one).capture(site, output, local); })
      .def(
          "rows_wanted",
          [](const ForwardPointer& one, std::int64_t site) { return (**one).rows_wanted(site); })
      .def(
          "window",
          [](const ForwardPointer& one, std::int64_t site) { return (**one).window(site); })
      .def(
          "capture_made", [](const ForwardPointer& one, std::int64_t site,
                             const at::Tensor& value) { (**one).capture_made(site, value); })
      .def(
          "end_forward", [](const ForwardPointer& one) { (**one).end_forward(); })
      .def(
          "end", [](const ForwardPointer& one) { (**one).end(); });
}

/// As GroupSums::add() and group_of(). `has`: bool [kinds].
void add_text(const SumsPointer& sums, std::int64_t side, std::int64_t index, std::int64_t size,
              std::int64_t seed, const at::Tensor& states, const at::Tensor& has) {
  const std::int64_t group =
      vectors::GroupSums::group_of(index, size, static_cast<std::uint64_t>(seed));
  (**sums).add(static_cast<vectors::Side>(side), group, states, has);
}

std::string evidence(const SumsPointer& sums, const at::Tensor& projections, std::int64_t positive,
                     std::int64_t kind, bool are_pairs, std::int64_t seed) {
  const vectors::ExtractedVector vector =
      vectors::extract_vector(**sums, {projections, positive}, static_cast<vectors::Kind>(kind),
                              are_pairs, static_cast<std::uint64_t>(seed));
  return vectors::evidence_of(vector).dump();
}

void bind_sums(torch::Library& library) {
  library.class_<BoundSums>("GroupSums")
      .def(torch::init<std::int64_t, std::int64_t>())
      .def("add", add_text)
      .def(
          "states", [](const SumsPointer& one) { return (**one).states(); })
      .def(
          "counts", [](const SumsPointer& one) { return (**one).counts(); })
      .def(
          "differences",
          [](const SumsPointer& one) {
            vectors::require_finite(**one);
            return (**one).differences();
          })
      .def("evidence", evidence);
}

TORCH_LIBRARY(tensor_tracer, library) {
  library.def("to_local(Tensor(a) x) -> Tensor(a)");
  library.def("has_cuda_kernels() -> bool", trace::has_cuda_kernels);
  library.def("pack(Tensor numbers, str compressor, Tensor? vector=None) -> Tensor");
  library.def("call_head(Tensor x, int head, str module) -> Tensor");
  library.def("tokenize(str text, int model) -> str");
  bind_forward(library);
  bind_sums(library);
  library.def(
      "run_model(__torch__.torch.classes.tensor_tracer.Forward forward, Tensor tokens, int model) "
      "-> "
      "str");
  library.class_<BoundRun>("Run")
      .def(torch::init<const std::string&>())
      .def("hub", hub_of)
      .def("learn", learn)
      .def("before_step",
           [](const RunPointer& run, std::int64_t step) { return (**run).before_step(step); })
      .def("wants_forward", wants_forward)
      .def("begin", begin)
      .def("end_step", [](const RunPointer& run, std::int64_t step) { (**run).end_step(step); })
      .def("take_prompt_news", [](const RunPointer& run) { return (**run).take_prompt_news(); })
      .def("wants_updates", wants_updates)
      .def("capture_updates", capture_updates)
      .def("send_event", send_event)
      .def("apply_program", apply_program)
      .def("tracer_seconds", [](const RunPointer& run) { return (**run).tracer_seconds(); })
      .def("finish", [](const RunPointer& run, std::int64_t step, bool is_collective) {
        (**run).finish(step, is_collective);
      });
}

TORCH_LIBRARY_IMPL(tensor_tracer, CompositeExplicitAutograd, library) {
  library.impl(
      "to_local", [](const at::Tensor& x) { return x; });
  library.impl("pack", [](const at::Tensor& numbers, const std::string& compressor,
                          const std::optional<at::Tensor>& vector) {
    return packed(numbers, compressor, vector.value_or(at::Tensor()));
  });
}

}  // namespace
}  // namespace tt::attach
