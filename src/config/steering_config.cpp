#include "tensor_tracer/config/steering_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "tensor_tracer/base/ranges.h"

namespace tt::config {
namespace {

using nlohmann::json;

constexpr std::array kSteeringKinds = {SteeringKind::kSteer, SteeringKind::kAblate,
                                       SteeringKind::kCap};

std::optional<double> finite_number(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool is_number = error == std::errc() && stop == end && std::isfinite(value);
  return is_number ? std::optional(value) : std::nullopt;
}

const char* form_of(SteeringKind kind) {
  if (kind == SteeringKind::kSteer) return "write VECTOR@LAYERS=COEFFICIENT, such as evil@20=5";
  if (kind == SteeringKind::kAblate) return "write VECTOR@LAYERS, such as evil@20 or evil@8-12";
  return "write VECTOR@LAYERS=LOW:HIGH, such as evil@20=-1:4; one of the two may be left out";
}

const std::vector<std::string>& texts_of(const SteeringConfig& steering, SteeringKind kind) {
  if (kind == SteeringKind::kSteer) return steering.steer;
  return kind == SteeringKind::kAblate ? steering.ablate : steering.cap;
}

bool read_range(std::string_view text, Steering& steering) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view low = text.substr(0, colon), high = text.substr(colon + 1);
  steering.low = finite_number(low);
  steering.high = finite_number(high);
  const bool are_numbers =
      steering.low.has_value() == !low.empty() && steering.high.has_value() == !high.empty();
  return are_numbers && (steering.low || steering.high);
}

// Why a steering of the right form cannot be; empty: it can.
std::string problem_of(const Steering& steering) {
  if (base::parse_numbers(steering.layers)->contains(0))
    return "names layer 0, and layers count from 1";
  if (steering.low && steering.high && *steering.low > *steering.high)
    return "has a low limit above the high one";
  return {};
}

bool read_amount(std::optional<std::string_view> text, Steering& steering) {
  if (steering.kind == SteeringKind::kAblate) return !text;
  if (!text) return false;
  if (steering.kind == SteeringKind::kCap) return read_range(*text, steering);
  const auto coefficient = finite_number(*text);
  steering.coefficient = coefficient.value_or(0);
  return coefficient.has_value();
}

// "20,24" of [20, 24]; empty: not a list of layers.
std::string layers_of(const json& list) {
  std::string layers;
  if (!list.is_array()) return {};
  for (const json& layer : list) {
    if (!layer.is_number_integer() || layer < 1) return {};
    layers += (layers.empty() ? "" : ",") + layer.dump();
  }
  return layers;
}

base::Status check_members(const json& form, const std::string& where) {
  constexpr std::array<std::string_view, 6> kKnown = {
      "steering_vector_path", "type", "steering_coef", "layers", "low", "high"};
  for (const auto& [name, value] : form.items()) {
    if (std::ranges::find(kKnown, std::string_view(name)) == kKnown.end())
      return base::invalid_argument(where, "steering_config has no member \"" + name + "\"",
                                    "see docs/vectors.md");
  }
  const json path = form.value("steering_vector_path", json());
  if (!path.is_string() || path.get<std::string>().empty())
    return base::invalid_argument(where, "steering_vector_path is not a file",
                                  "give the path of the vector");
  return {};
}

// The amount behind "@layers"; an error if the form lacks it.
base::Result<std::string> amount_of(const json& form, SteeringKind kind, const std::string& where) {
  const auto given = [&](const char* name) {
    const json value = form.value(name, json());
    return value.is_number() ? value.dump() : std::string();
  };
  if (kind == SteeringKind::kAblate) return std::string();
  if (kind == SteeringKind::kCap) return "=" + given("low") + ":" + given("high");
  const std::string coefficient = given("steering_coef");
  if (coefficient.empty())
    return base::invalid_argument(where, "steering_coef is not a number", "give one, such as 5.0");
  return "=" + coefficient;
}

base::Result<PublishedSteering> read_published(const json& form, const std::string& where) {
  if (!form.is_object())
    return base::invalid_argument(where, "steering_config is not an object", "see docs/vectors.md");
  if (auto status = check_members(form, where); !status) return status.error();
  const std::string layers = layers_of(form.value("layers", json()));
  if (layers.empty())
    return base::invalid_argument(where, "layers is not a list of layers",
                                  "give one, such as [20]");
  PublishedSteering published{.vector_path = form.at("steering_vector_path")};
  const json type = form.value("type", json("steer"));
  const auto kind =
      std::ranges::find(kSteeringKinds, type, [](SteeringKind one) { return json(name_of(one)); });
  if (kind == kSteeringKinds.end())
    return base::invalid_argument(where, "type is " + type.dump(), "give steer, ablate or cap");
  published.kind = *kind;
  auto amount = amount_of(form, *kind, where);
  if (!amount) return amount.error();
  published.value = "@" + layers + amount.value();
  if (auto read = parse_steering(*kind, "vector" + published.value); !read)
    return base::invalid_argument(where, "low and high are not a range",
                                  "give at least one number, low not above high");
  return published;
}

}  // namespace

std::string name_of(SteeringKind kind) {
  if (kind == SteeringKind::kSteer) return "steer";
  return kind == SteeringKind::kAblate ? "ablate" : "cap";
}

Options steering_options(SteeringConfig& steering) {
  return {{"--steer", &steering.steer,
           "add a direction to the output of layers: VECTOR@LAYERS=COEFFICIENT, such as evil@20=5"},
          {"--ablate", &steering.ablate,
           "remove the component along a direction from the output of layers, after --steer: "
           "VECTOR@LAYERS"},
          {"--cap", &steering.cap,
           "keep the component along a direction in a range, after --steer and --ablate: "
           "VECTOR@LAYERS=LOW:HIGH"},
          {"--steering-config", &steering.steering_config,
           "JSON file with the steering_config of the code of persona vectors"},
          {"--positions", &steering.positions,
           "tokens at which --steer, --ablate and --cap act: all; prompt; response; or published, "
           "the rule of the code of persona vectors",
           one_of({"all", "prompt", "response", "published"})}};
}

base::Result<Steering> parse_steering(SteeringKind kind, const std::string& text) {
  const std::size_t at = text.rfind('@');
  const std::size_t equal = at == std::string::npos ? at : text.find('=', at);
  Steering steering{.kind = kind};
  if (at != std::string::npos) {
    steering.vector = text.substr(0, at);
    steering.layers = text.substr(at + 1, equal == std::string::npos ? equal : equal - at - 1);
  }
  std::optional<std::string_view> amount;
  if (equal != std::string::npos) amount = std::string_view(text).substr(equal + 1);
  const auto layers = base::parse_numbers(steering.layers);
  const bool has_form = !steering.vector.empty() && layers && !layers->empty();
  const std::string problem =
      has_form && read_amount(amount, steering) ? problem_of(steering) : "has another form";
  if (problem.empty()) return steering;
  return base::invalid_argument("--" + name_of(kind), "\"" + text + "\" " + problem, form_of(kind));
}

std::vector<Steering> steerings_of(const SteeringConfig& steering) {
  std::vector<Steering> all;
  for (const SteeringKind kind : kSteeringKinds)
    for (const std::string& text : texts_of(steering, kind))
      all.push_back(parse_steering(kind, text).value());
  return all;
}

base::Status check_steering(const SteeringConfig& steering) {
  for (const SteeringKind kind : kSteeringKinds)
    for (const std::string& text : texts_of(steering, kind))
      if (auto read = parse_steering(kind, text); !read) return read.error();
  if (steering.positions == "all" || !steering.is_empty()) return {};
  return base::invalid_argument(
      "--positions", "there is no --steer, --ablate, --cap or --steering-config that it concerns",
      "in a program, write when(positions=\"" + steering.positions + "\")");
}

base::Result<std::optional<PublishedSteering>> parse_steering_config(const std::string& text,
                                                                     const std::string& where) {
  const json whole = json::parse(text, nullptr, false, /*ignore_comments=*/true);
  if (!whole.is_object())
    return base::invalid_argument(where, "is not a JSON object", "see docs/vectors.md");
  const bool is_off = whole.value("enable_steering_during_training", json()) == json(false);
  if (is_off) return std::optional<PublishedSteering>();
  auto read =
      read_published(whole.contains("steering_config") ? whole["steering_config"] : whole, where);
  if (!read) return read.error();
  return std::optional(std::move(read).value());
}

}  // namespace tt::config
