#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "tensor_tracer/intervene/context.h"

namespace tt::intervene {

/// The tokens whose texts, joined, are `text`: bool of the shape of `tokens`, on the CPU. A text
/// that begins or ends within a token does not count. `tokens`: int64 [batch, sequence] on any
/// device, which is waited for. Thread: any.
at::Tensor spelled(const at::Tensor& tokens, const std::string& text, const TokenTexts& texts);

}  // namespace tt::intervene
