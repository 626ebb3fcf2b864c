#pragma once

#include <nlohmann/json.hpp>

#include "src/cli/model_path.h"
#include "tensor_tracer/checkpoint/tensor_table.h"

namespace tt::cli {

/// The answer of `tensor-tracer inspect --json`: docs/models.md. `table`: the headers of the files.
/// If this program cannot compute the model, the key "problem" has the reason.
nlohmann::json inspect_model(const ModelPath& model, const checkpoint::TensorTable& table);

/// For the key "tensors" of the answer: name, layer, shape, dtype and files, ordered by layer.
nlohmann::json list_tensors(const checkpoint::TensorTable& table);

}  // namespace tt::cli
