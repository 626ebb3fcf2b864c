#include "tensor_tracer/train/hf_tensors.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tensor_tracer/hf/model.h"

namespace tt::train {
namespace {

// The whole weight of a layer with the updates of its adapters added.
base::Result<at::Tensor> merged_weight(const nn::Parameter& weight,
                                       const std::vector<nn::LowRank>& adapters,
                                       const WholeTensor& whole) {
  auto full = whole(weight);
  for (const nn::LowRank& adapter : adapters) {
    if (!full || adapter.layer() + ".weight" != weight.name) continue;
    const auto a_RI = whole(adapter.a());
    const auto b_OR = whole(adapter.b());
    if (!a_RI) return a_RI;
    if (!b_OR) return b_OR;
    at::Tensor& sum = full.value();
    if (!sum.defined()) continue;
    const at::ScalarType wide = c10::promoteTypes(sum.scalar_type(), at::kFloat);
    sum = sum.to(wide);
    if (sum.is_alias_of(weight.local)) sum = sum.clone();
    sum.narrow(0, adapter.first_row(), b_OR.value().size(0))
        .add_(b_OR.value().to(wide).matmul(a_RI.value().to(wide)), adapter.scale());
  }
  return full;
}

}  // namespace

std::vector<checkpoint::TensorSpec> hf_tensors(
    const HfSource& source, const std::function<at::ScalarType(const nn::Parameter&)>& dtype_of) {
  std::vector<checkpoint::TensorSpec> tensors;
  for (const nn::Parameter& parameter : source.parameters) {
    if (nn::is_adapter(parameter.name)) continue;
    const hf::Source of = hf::source_of(source.config, source.model, parameter.name);
    for (std::size_t i = 0; i < of.tensors.size(); ++i) {
      std::vector<std::int64_t> shape = parameter.full_shape;
      if (!of.sizes.empty()) shape.front() = of.sizes[i];
      if (of.transposed) std::ranges::reverse(shape);
      tensors.push_back({of.tensors[i], dtype_of(parameter), std::move(shape)});
    }
  }
  return tensors;
}

base::Status write_hf_tensors(const HfSource& source, const WholeTensor& whole,
                              const std::function<base::Status(const at::Tensor&)>& write) {
  const at::NoGradGuard no_grad;
  for (const nn::Parameter& parameter : source.parameters) {
    if (nn::is_adapter(parameter.name)) continue;
    const auto full = merged_weight(parameter, source.adapters, whole);
    if (!full) return full.error();
    if (!full.value().defined()) continue;
    const hf::Source of = hf::source_of(source.config, source.model, parameter.name);
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < of.tensors.size(); ++i) {
      const std::int64_t size = of.sizes.empty() ? full.value().size(0) : of.sizes[i];
      const at::Tensor part = full.value().narrow(0, begin, size);
      begin += size;
      if (auto status = write(of.transposed ? part.t() : part); !status) return status;
    }
  }
  return {};
}

}  // namespace tt::train
