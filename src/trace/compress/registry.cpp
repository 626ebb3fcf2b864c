#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "src/trace/compress/kinds.h"

namespace tt::trace {
namespace {

using nlohmann::json;

struct Kind {
  std::string_view name;
  ParsedCompressor (*parse)(const json&, const std::string&, const CompressorContext&);
};

#define TT_COMPRESSOR(kind) {#kind, parse_##kind},
constexpr Kind kKinds[] = {TT_COMPRESSORS};
#undef TT_COMPRESSOR

}  // namespace

PackKernels::PackKernels(std::string_view compressor,
                         std::map<at::DeviceType, PackKernel> by_device)
    : compressor_(compressor), by_device_(std::move(by_device)) {}

const PackKernel& PackKernels::on(at::Device device) const {
  const auto found = by_device_.find(device.type());
  if (found != by_device_.end()) return found->second;
  std::string devices;
  for (const auto& [type, kernel] : by_device_)
    devices += (devices.empty() ? "" : ", ") + c10::DeviceTypeName(type, /*lower_case=*/true);
  throw std::runtime_error("compressor \"" + compressor_ + "\" has no kernel for device " +
                           device.str() + "; use another compressor, or tensors on " + devices);
}

base::Result<std::shared_ptr<const Compressor>> parse_compressor(const json& text,
                                                                 const std::string& where,
                                                                 const CompressorContext& context) {
  if (text.is_null())
    return parse_compressor({{"kind", context.point.default_compressor()}}, where, context);
  if (!text.is_object() || !text.contains("kind") || !text["kind"].is_string()) {
    return base::invalid_argument(where, "must be an object with a \"kind\"",
                                  "such as {\"kind\": \"tile\"}");
  }
  const auto name = text["kind"].get<std::string>();
  const auto* kind = std::ranges::find(kKinds, name, &Kind::name);
  if (kind == std::end(kKinds)) {
    std::string names;
    for (const Kind& known : kKinds) names += (names.empty() ? "" : ", ") + std::string(known.name);
    return base::invalid_argument(where, "unknown compressor \"" + name + "\"",
                                  "known compressors: " + names);
  }
  if (context.point.features == 0 && name != "none" && name != "empty") {
    return base::invalid_argument(where,
                                  context.point.name + " holds whole numbers and is not compressed",
                                  "use {\"kind\": \"none\"}");
  }
  if (context.point.is_of_step() && name != "none" && name != "empty") {
    return base::invalid_argument(where,
                                  "the numbers of " + context.point.name + " are sent as they are",
                                  "use {\"kind\": \"none\"}");
  }
  return kind->parse(text, where, context);
}

}  // namespace tt::trace
