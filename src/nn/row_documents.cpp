#include "tensor_tracer/nn/row_documents.h"

#include <ATen/ATen.h>

// Shapes: B batch, T sequence (queries or keys).

namespace tt::nn {

RowDocuments::RowDocuments(const at::Tensor& starts_BT) : starts_BT_(starts_BT) {
  if (!starts_BT.defined()) return;
  const at::Tensor index_T = at::arange(starts_BT.size(1), starts_BT.options());
  positions_BT_ = index_T - starts_BT;
  const at::Tensor is_past_TT = index_T.unsqueeze(0) <= index_T.unsqueeze(1);
  visible_B1TT_ = (index_T >= starts_BT.unsqueeze(-1)).logical_and_(is_past_TT).unsqueeze_(1);
}

RowDocuments RowDocuments::first(std::int64_t rows) const {
  if (!are_given()) return {};
  RowDocuments part;
  part.starts_BT_ = starts_BT_.narrow(0, 0, rows);
  part.positions_BT_ = positions_BT_.narrow(0, 0, rows);
  part.visible_B1TT_ = visible_B1TT_.narrow(0, 0, rows);
  return part;
}

}  // namespace tt::nn
