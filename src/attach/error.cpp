#include "src/attach/error.h"

#include <string>

#include "tensor_tracer/comm/collectives.h"

namespace tt::attach {

base::Error error_of(const nlohmann::json& text) {
  return {text.at("code"), text.at("message"), text.at("where"), text.at("remedy")};
}

void agree(const comm::ProcessGroup& control, const base::Status& of_rank_0) {
  nlohmann::json failure;  // null: none
  if (!of_rank_0) {
    const base::Error& error = of_rank_0.error();
    failure = {error.code, error.message, error.where, error.remedy};
  }
  std::string text = failure.dump();
  comm::broadcast_text(control, text, 0);
  failure = nlohmann::json::parse(text);
  if (!failure.is_null()) throw AttachError({failure[0], failure[1], failure[2], failure[3]});
}

}  // namespace tt::attach
