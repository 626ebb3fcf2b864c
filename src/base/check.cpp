#include "tensor_tracer/base/check.h"

#include <utility>

namespace tt::base {
namespace {

std::string& rank_label() {
  thread_local std::string label;
  return label;
}

}  // namespace

void set_rank_label(std::string label) { rank_label() = std::move(label); }

void check_failed(const char* file, int line, const std::string& what) {
  std::string text = "check failed: " + what + " at " + file + ":" + std::to_string(line);
  if (!rank_label().empty()) text += " on " + rank_label();
  throw CheckError(text);
}

}  // namespace tt::base
