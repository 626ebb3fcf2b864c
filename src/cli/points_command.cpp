#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

#include "src/cli/commands.h"
#include "src/cli/help_text.h"
#include "src/cli/hf_model.h"
#include "src/cli/options.h"
#include "src/cli/parse.h"
#include "src/cli/run_tokenizer.h"
#include "tensor_tracer/model/gpt.h"
#include "tensor_tracer/points/place_table.h"

namespace tt::cli {
namespace {

std::string layers_of(const points::Place& point) {
  if (point.last_layer == 0) return "-";
  return fmt::format("{}-{}", point.first_layer, point.last_layer);
}

// For example [batch 8, sequence 256, features 768].
std::string dims_of(const points::Place& point) {
  std::vector<std::string> dims;
  for (std::size_t i = 0; i < point.dims.size(); ++i)
    dims.push_back(fmt::format("{} {}", point.dims[i], point.shape[i]));
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

void print_table(const points::PlaceTable& places) {
  constexpr const char* kRow = "{:>4}  {:<18} {:<30} {:>6}  {:<8}  {:<46} {:<42} {:<15} {}\n";
  fmt::print(fmt::runtime(kRow), "flag", "point", "path", "layers", "dtype",
             "shape of a micro-batch", "placement on the tensor axis", "bias", "meaning");
  for (const points::Place& point : places.rows()) {
    if (!point.traceable()) continue;
    fmt::print(fmt::runtime(kRow), point.number, point.name, point.full_path(), layers_of(point),
               point.dtype, dims_of(point), to_string(point.placement), point.bias, point.text);
  }
}

}  // namespace

int run_points(int argc, const char* const* argv) {
  config::TrainConfig config;
  bool as_json = false;
  CLI::App app("List the trace points of a configuration.", "tensor-tracer points");
  set_help_text(app);
  add_configuration_file(app);
  add_options(app, config::train_options(config));
  app.add_flag("--json", as_json, "print the points as JSON, as in docs/protocol.md")
      ->group("Output");
  auto parsed = parse(app, argc, argv);
  if (!parsed) return fail(parsed.error());
  if (!parsed.value().empty()) {
    fmt::print("{}", parsed.value());
    return 0;
  }
  // Describes the model on the smallest mesh that the configuration fits.
  if (auto model = read_hf_model(config, given_options(app)); !model) return fail(model.error());
  if (auto read = read_tokenizer(config, given_options(app)); !read) return fail(read.error());
  auto shape = config::check_unseen(config, config.tensor_model_parallel_size);
  if (!shape) return fail(shape.error());
  const auto places = model::describe_model(config.model, shape.value().tensor,
                                            config.micro_batch_size, config.compute_dtype())
                          .places();
  if (as_json)
    fmt::print("{}\n", places->to_json().dump(2));
  else
    print_table(*places);
  return 0;
}

}  // namespace tt::cli
