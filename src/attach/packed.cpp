#include "src/attach/packed.h"

#include <ATen/ATen.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "tensor_tracer/trace/compressor.h"

namespace tt::attach {
namespace {

class GivenVector final : public trace::VectorLibrary {
 public:
  GivenVector(const at::Tensor& vector, std::int64_t columns)
      : numbers_(vector.defined() ? vector.to(at::kCPU, at::kFloat).contiguous()
                                  : at::zeros({columns}, at::device(at::kCPU).dtype(at::kFloat))) {}
  std::vector<std::string> names() override { return {"given"}; }
  base::Result<std::shared_ptr<const trace::DirectionVector>> find(
      const std::string& name) override {
    auto vector = std::make_shared<trace::DirectionVector>();
    vector->name = name;
    vector->hidden_size = numbers_.numel();
    vector->has_embedding_row = true;
    const auto* first = numbers_.const_data_ptr<float>();
    vector->rows.assign(first, first + numbers_.numel());
    return std::shared_ptr<const trace::DirectionVector>(std::move(vector));
  }

 private:
  const at::Tensor numbers_;
};

}  // namespace

at::Tensor packed(const at::Tensor& numbers, const std::string& compressor,
                  const at::Tensor& vector) {
  const at::Tensor local = numbers.contiguous();
  trace::LogicalShape shape;
  shape.rows = local.size(0);
  shape.lines = shape.last_line = local.size(1);
  shape.features = local.size(2);
  shape.line_dims = {shape.lines};
  shape.placement = mesh::Placement::replicate();
  points::Place place;
  place.name = "pack";
  place.features = shape.features;
  GivenVector vectors(vector, shape.features);
  const auto parsed =
      trace::parse_compressor(nlohmann::json::parse(compressor), "compressor",
                              {place, shape.placement, false, 1, &vectors, shape.features});
  if (!parsed) throw std::runtime_error(to_string(parsed.error()));
  const auto packing = parsed.value()->packing(shape, local.scalar_type() == at::kDouble);
  const auto bytes = static_cast<std::int64_t>(packing->part_bytes(0));
  const at::Tensor part = at::zeros({(bytes + 7) / 8 * 8}, local.options().dtype(at::kByte));
  packing->pack({}, 0,
                local.is_cpu() && local.scalar_type() != at::kDouble ? local.to(at::kFloat) : local,
                {static_cast<std::byte*>(part.mutable_data_ptr()), packing->part_bytes(0)});
  return part;
}

}  // namespace tt::attach
