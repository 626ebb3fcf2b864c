#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/trace/catalogue.h"

namespace tt::model {

/// A forward of a training micro-batch.
struct ForwardShape {
  std::int64_t batch = 1;
  std::string dtype = "float32";  // of activations
};

/// The trace points of a GPT and how each lies on a tensor axis of `tensor_ranks` ranks.
trace::Catalogue make_catalogue(const config::ModelConfig& config, int tensor_ranks,
                                const ForwardShape& forward = {});

/// The matrices of a GPT that programs may change for a forward, and how each lies.
std::vector<trace::WeightDescription> make_weights(const config::ModelConfig& config,
                                                   int tensor_ranks);

}  // namespace tt::model
