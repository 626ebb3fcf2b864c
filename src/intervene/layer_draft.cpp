#include "src/intervene/layer_draft.h"

#include <ATen/ATen.h>

#include <utility>

#include "tensor_tracer/expr/diagnostic.h"

namespace tt::intervene {

at::Tensor meta_tensor(const std::vector<std::int64_t>& shape, at::ScalarType dtype) {
  return at::empty(shape, at::device(at::kMeta).dtype(dtype));
}

base::Error LayerDraft::error(expr::NodeId node, std::string what, std::string remedy) const {
  return expr::to_error(program.ast(),
                        {program.ast().node(node).span, std::move(what), std::move(remedy)});
}

base::Result<at::Tensor> LayerDraft::select(const at::Tensor& x, const Indices& indices,
                                            expr::NodeId subscript) const {
  try {
    const auto options = at::device(at::kCPU).dtype(at::kBool);
    const at::Tensor data = at::zeros({}, options).expand(x.sizes());
    return meta_tensor(data.index(indices).sizes().vec(), x.scalar_type());
  } catch (const c10::Error&) {
    return error(subscript, "this does not fit the shape " + eval::describe_shape(x.sizes()),
                 "positions count from 0; -1 is the last");
  }
}

}  // namespace tt::intervene
