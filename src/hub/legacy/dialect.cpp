#include "src/hub/legacy/dialect.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <string>

namespace tt::hub::dialect {
namespace {

using nlohmann::json;

constexpr std::array<KnownPoint, 7> kTensorTracerPoints = {{
    {.flag_name = "InputTokens", .point = "InputTokens"},
    {.flag_name = "QKV_mat_mul", .point = "QKV"},
    {.flag_name = "ContextLayer_mat_mul", .point = "ContextLayer"},
    {.flag_name = "AttentionOutput_mat_mul", .point = "AttentionOutput"},
    {.flag_name = "MLP1_mat_mul", .point = "MLP1"},
    {.flag_name = "MLP2_mat_mul", .point = "MLP2"},
    {.flag_name = "HiddenStates", .point = "HiddenStates"},
}};

constexpr std::array<KnownPoint, 5> kMegaScopePoints = {{
    {.flag_name = "QKV_mat_mul", .point = "QKV", .tiles = "QKV"},
    {.flag_name = "RawAttentionScore_mat_mul", .point = "RawAttentionScore"},
    {.flag_name = "ContextLayer_mat_mul", .point = "ContextLayer", .tiles = "MLP"},
    {.flag_name = "MLP1_mat_mul", .point = "MLP1", .on_by_default = true, .tiles = "MLP"},
    {.flag_name = "MLP2_mat_mul", .point = "MLP2", .on_by_default = true, .tiles = "MLP"},
}};

// Flags that only MegaScope has. For the last two no point is traced here.
constexpr std::array<std::string_view, 3> kMegaScopeFlags = {"RawAttentionScore_mat_mul",
                                                             "MLP2_Plot", "Result"};

}  // namespace

std::span<const KnownPoint> points_of(Dialect dialect) {
  if (dialect == Dialect::kMegaScope) return kMegaScopePoints;
  return kTensorTracerPoints;
}

bool is_legacy(const json& message) {
  return member(message, "type").is_string() && !message.contains("method");
}

Dialect dialect_of(const json& message) {
  const json& compressors = member(message, "compressor_config");
  const json& flags = member(message, "visualization_flags");
  const bool for_points = std::ranges::any_of(
      kTensorTracerPoints,
      [&](const KnownPoint& known) { return compressors.contains(known.flag_name); });
  const bool has_scope_flag = std::ranges::any_of(
      kMegaScopeFlags, [&](std::string_view name) { return flags.contains(name); });
  const bool for_parts =
      !member(compressors, "QKV").is_null() || !member(compressors, "MLP").is_null();
  const bool disturbs = message.contains("disturbance_configs");
  return for_parts || (!for_points && (disturbs || has_scope_flag)) ? Dialect::kMegaScope
                                                                    : Dialect::kTensorTracer;
}

bool is_on(const json& value) {
  if (!value.is_string()) return value == true;
  std::string text;
  std::ranges::transform(value.get_ref<const std::string&>(), std::back_inserter(text),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text == "true";
}

}  // namespace tt::hub::dialect
