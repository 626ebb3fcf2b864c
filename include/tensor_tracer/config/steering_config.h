#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/option.h"

/// The options that act with direction vectors at the output of layers: docs/vectors.md, "Steer,
/// ablate and cap". Thread: any.
namespace tt::config {

/// Values as the user writes them, such as "evil@20=5".
struct SteeringConfig {
  std::vector<std::string> steer;
  std::vector<std::string> ablate;
  std::vector<std::string> cap;
  std::string steering_config;    // a JSON file or a JSON object; empty: none
  std::string positions = "all";  // as when(positions=…) of programs

  bool is_empty() const {
    return steer.empty() && ablate.empty() && cap.empty() && steering_config.empty();
  }
};

/// The rows of `steering`, which must outlive them.
Options steering_options(SteeringConfig& steering);

/// Error: a value has a wrong form, or --positions selects tokens for nothing. Does not read the
/// file of --steering-config.
base::Status check_steering(const SteeringConfig& steering);

enum class SteeringKind : std::uint8_t { kSteer, kAblate, kCap };

/// One value of --steer, --ablate or --cap.
struct Steering {
  SteeringKind kind = SteeringKind::kSteer;
  std::string vector = {};         // its name
  std::string layers = {};         // such as "8-12,20", from 1
  double coefficient = 1.0;        // kSteer
  std::optional<double> low = {};  // kCap has one of the two, or both
  std::optional<double> high = {};
};

/// "steer", "ablate" or "cap".
std::string name_of(SteeringKind kind);

/// Reads "evil@20=5", "evil@20" or "evil@8-12=-1:4". The error names the flag.
base::Result<Steering> parse_steering(SteeringKind kind, const std::string& text);

/// All values of the three flags. REQUIRES: check_steering().
std::vector<Steering> steerings_of(const SteeringConfig& steering);

/// The published form of --steering-config.
struct PublishedSteering {
  std::string vector_path;
  SteeringKind kind = SteeringKind::kSteer;
  std::string value = {};  // of the flag, without the name of the vector: "@20=5"
};

/// Reads {"steering_vector_path": …, "type": "steer", "steering_coef": 5.0, "layers": [20]}, or an
/// object that has it under "steering_config". `where`: that errors name. Nothing: its
/// "enable_steering_during_training" is false.
base::Result<std::optional<PublishedSteering>> parse_steering_config(const std::string& text,
                                                                     const std::string& where);

}  // namespace tt::config
