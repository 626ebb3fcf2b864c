#pragma once

#include <cstdint>
#include <set>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/hf/model.h"

namespace tt::hf {

/// The tokens that end a response: "eos_token_id" of generation_config.json in the model's folder,
/// else of its config.json; empty: neither names one. Error: the value is neither a token id nor a
/// list of them; `where` is the path of generation_config.json or the key. Thread: any.
base::Result<std::set<std::int64_t>> read_stop_ids(const ModelFolder& folder);

}  // namespace tt::hf
