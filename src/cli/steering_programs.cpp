#include "src/cli/steering_programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/base/ranges.h"

namespace tt::cli {
namespace {

namespace fs = std::filesystem;
using config::Steering;
using config::SteeringConfig;
using config::SteeringKind;

std::string flag_of(const Steering& steering) { return "--" + config::name_of(steering.kind); }

bool is_same(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error);
}

base::Result<std::string> read_form(const std::string& given) {
  if (given.starts_with("{")) return given;
  auto text = base::read_small_file(given);
  if (text) return text;
  return base::invalid_argument("--steering-config", "\"" + given + "\" " + text.error().message,
                                "give a JSON file");
}

// The file is --tensor-tracer-vectors, or lies in that folder.
base::Status take_vector_file(const std::string& file, std::string& vectors) {
  if (vectors.empty()) vectors = file;
  const fs::path folder = fs::path(file).parent_path();
  if (is_same(file, vectors) || is_same(folder.empty() ? "." : folder, vectors)) return {};
  std::error_code error;
  if (!fs::exists(file, error))
    return base::invalid_argument("--steering-config", "there is no file \"" + file + "\"",
                                  "correct steering_vector_path");
  return base::invalid_argument("--steering-config",
                                "\"" + file + "\" is not in --tensor-tracer-vectors " + vectors,
                                "put the file there, or leave --tensor-tracer-vectors out");
}

std::vector<std::string>& list_of(SteeringConfig& steering, SteeringKind kind) {
  if (kind == SteeringKind::kSteer) return steering.steer;
  return kind == SteeringKind::kAblate ? steering.ablate : steering.cap;
}

base::Status check_layers(const Steering& steering, int num_layers) {
  const auto layers = base::parse_numbers(steering.layers).value();
  if (*layers.rbegin() <= num_layers) return {};
  return base::invalid_argument(flag_of(steering),
                                fmt::format("layer {} of \"{}\": the model has the layers 1 to {}",
                                            *layers.rbegin(), steering.vector, num_layers),
                                "give one of these");
}

base::Status check_vector(const Steering& steering, const intervene::Context& context) {
  if (context.vectors == nullptr) {
    return base::invalid_argument(flag_of(steering), "this run has no direction vectors",
                                  "add --tensor-tracer-vectors with a folder or a file");
  }
  const auto vector = context.vectors->find(steering.vector);
  if (!vector) {
    base::Error error = vector.error();
    error.where = flag_of(steering) + ": " + error.where;
    return error;
  }
  const trace::DirectionVector& found = *vector.value();
  const auto layers = base::parse_numbers(steering.layers).value();
  for (const std::uint16_t layer : layers) {
    const float* const row = found.row(layer);
    const std::span<const float> numbers(row, static_cast<std::size_t>(found.hidden_size));
    const bool is_finite = std::ranges::all_of(
        numbers, [](float x) { return std::isfinite(x); });
    if (is_finite && std::ranges::any_of(numbers, [](float x) { return x != 0; })) continue;
    return base::invalid_argument(
        flag_of(steering),
        fmt::format("row {} of \"{}\" {}", layer, steering.vector,
                    is_finite ? "is zero" : "has a number that is not finite"),
        "give other layers");
  }
  return {};
}

// docs/vectors.md, "Steer, ablate and cap".
std::string lines_of(const Steering& steering) {
  const std::string name = nlohmann::json(steering.vector)
                               .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const std::string row = fmt::format("vector({})[layer]", name);
  if (steering.kind == SteeringKind::kSteer) {
    return fmt::format(
        "alpha = param({})\n"
        "h = layers[layer].output\n"
        "layers[layer].output = h + alpha * {}\n",
        steering.coefficient, row);
  }
  const std::string along =
      fmt::format("v = {}\nu = v / v.norm()\nh = layers[layer].output\np = h @ u\n", row);
  if (steering.kind == SteeringKind::kAblate)
    return along + "layers[layer].output = h - p[..., None] * u\n";
  std::string lines, capped = "p";
  if (steering.low) {
    lines += fmt::format("low = param({})\n", *steering.low);
    capped += ".clamp_min(low)";
  }
  if (steering.high) {
    lines += fmt::format("high = param({})\n", *steering.high);
    capped += ".clamp_max(high)";
  }
  return lines + along + "capped = " + capped +
         "\nif (capped != p)[..., None]: layers[layer].output = h + (capped - p)[..., None] * u\n";
}

ProgramFile program_of(const Steering& steering, const std::string& positions) {
  const std::string name =
      fmt::format("{}-{}-{}", config::name_of(steering.kind), steering.vector, steering.layers);
  std::string when = fmt::format("when(layers=\"{}\"", steering.layers);
  if (positions != "all") when += fmt::format(", positions=\"{}\"", positions);
  return {name, when + ")\n" + lines_of(steering)};
}

}  // namespace

base::Status take_steering_config(config::TrainConfig& config) {
  SteeringConfig& steering = config.intervention.steering;
  if (steering.steering_config.empty()) return {};
  const auto text = read_form(steering.steering_config);
  if (!text) return text.error();
  const auto read = config::parse_steering_config(text.value(), "--steering-config");
  if (!read) return read.error();
  steering.steering_config.clear();
  if (!read.value()) return {};
  const config::PublishedSteering& published = *read.value();
  auto status = take_vector_file(published.vector_path, config.tracer.tensor_tracer_vectors);
  if (!status) return status;
  const std::string vector = fs::path(published.vector_path).stem().string();
  list_of(steering, published.kind).push_back(vector + published.value);
  return {};
}

base::Result<std::vector<ProgramFile>> make_steering_programs(const config::TrainConfig& config,
                                                              const intervene::Context& context) {
  std::vector<ProgramFile> programs;
  const SteeringConfig& given = config.intervention.steering;
  for (const Steering& steering : config::steerings_of(given)) {
    auto status = check_layers(steering, context.model.num_layers());
    if (status) status = check_vector(steering, context);
    if (!status) return status.error();
    programs.push_back(program_of(steering, given.positions));
  }
  return programs;
}

}  // namespace tt::cli
