#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tensor_tracer/trace/compressor.h"

/// Packs made-up tensors on every rank and joins them, as the tracer does.
namespace tt::trace::packing {

using nlohmann::json;

/// One vector for layers 0 to 1 of any width.
class Vectors : public VectorLibrary {
 public:
  explicit Vectors(std::int64_t hidden_size) : hidden_size_(hidden_size) {}
  std::vector<std::string> names() override { return {"a", "b"}; }
  base::Result<std::shared_ptr<const DirectionVector>> find(const std::string& name) override {
    auto vector = std::make_shared<DirectionVector>();
    vector->name = name;
    vector->hidden_size = hidden_size_;
    vector->has_embedding_row = true;
    const at::Tensor numbers = at::randn(
        {2 * hidden_size_}, at::detail::createCPUGenerator(name == "a" ? 5 : 6), at::kFloat);
    const auto* first = numbers.const_data_ptr<float>();
    vector->rows.assign(first, first + numbers.numel());
    return std::shared_ptr<const DirectionVector>(std::move(vector));
  }

 private:
  const std::int64_t hidden_size_;
};

/// How a tensor lies on the ranks, by their number.
struct Layout {
  const char* name;
  int dim;  // 2: columns, 1: lines, 0: every rank holds all
  std::vector<std::int64_t> segments;
  int max_chunks;          // of the segments after the first; 0: as many as ranks
  bool is_zigzag = false;  // each rank has one block from the front and one from the back
  int contexts = 1;        // beside columns: so many groups of ranks have blocks of lines

  std::int64_t size() const {
    std::int64_t sum = 0;
    for (const std::int64_t segment : segments) sum += segment;
    return sum;
  }
  mesh::Placement on(int ranks) const {
    if (dim == 0) return mesh::Placement::replicate();
    std::vector<mesh::Segment> cut;
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const bool is_kv = i > 0 && max_chunks > 0;
      cut.push_back({segments[i], is_kv ? std::min(max_chunks, ranks) : ranks});
      for (int block = 0; is_zigzag && block < 2 * ranks; ++block)
        cut.back().blocks.push_back(std::min(block, 2 * ranks - 1 - block));
    }
    return mesh::Placement::shard(dim, cut);
  }
};

/// The blocks of `lines` lines: one from the front and one from the back for each of `ranks`.
inline mesh::Placement zigzag(std::int64_t lines, int ranks) {
  return Layout{"zigzag", 1, {lines}, 0, true}.on(ranks);
}

/// What `rank` holds of `whole` [rows, lines, features].
inline at::Tensor shard_of(const at::Tensor& whole, const mesh::Placement& placement, int rank,
                           int ranks) {
  if (placement.kind == mesh::Placement::Kind::kReplicate) return whole;
  std::vector<at::Tensor> parts;
  for (const mesh::Interval& at : intervals_of_rank(placement, rank, ranks))
    parts.push_back(whole.narrow(placement.dim, at.begin, at.end - at.begin));
  return at::cat(parts, placement.dim);
}

struct Traced {
  json compressor;
  std::int64_t first_line = 0, last_line = 0;  // 0 and 0: all
};

inline LogicalShape logical_shape(const at::Tensor& whole, const mesh::Placement& placement,
                                  int ranks, const Traced& wanted) {
  LogicalShape shape;
  shape.rows = whole.size(0);
  shape.lines = whole.size(1);
  shape.features = whole.size(2);
  shape.first_line = wanted.first_line;
  shape.last_line = wanted.last_line == 0 ? whole.size(1) : wanted.last_line;
  shape.line_dims = {shape.captured_lines()};
  shape.placement = placement;
  shape.ranks = ranks;
  return shape;
}

inline LogicalShape shape_on(const at::Tensor& whole, const Layout& layout, int ranks,
                             const Traced& wanted) {
  const int contexts = std::min(layout.contexts, ranks);
  LogicalShape shape = logical_shape(whole, layout.on(ranks / contexts), ranks, wanted);
  if (contexts > 1) shape.contexts = zigzag(whole.size(1), contexts);
  return shape;
}

/// What `rank` holds of `whole`.
inline at::Tensor part_on(const at::Tensor& whole, const LogicalShape& shape, int rank) {
  const int columns = shape.placement_ranks();
  const at::Tensor of_context =
      shard_of(whole, shape.contexts, rank / columns, shape.ranks / columns);
  return shard_of(of_context, shape.placement, rank % columns, columns);
}

/// "vocabulary" stands for a point whose features are tokens.
inline std::shared_ptr<const Compressor> parsed(json text, const LogicalShape& shape) {
  points::Place point;
  point.is_vocabulary = text.erase("vocabulary") > 0;
  point.name = "Test";
  point.features = shape.features;
  Vectors vectors(shape.features);
  auto compressor = parse_compressor(
      text, "compressor",
      {point, shape.placement, false, shape.placement_ranks(), &vectors, shape.features});
  if (!compressor) throw std::runtime_error(to_string(compressor.error()));
  return compressor.value();
}

/// A column for each captured line; -1 for some.
inline std::vector<std::int64_t> targets_of(const LogicalShape& shape) {
  std::vector<std::int64_t> targets;
  for (std::int64_t i = 0; i < shape.rows * shape.captured_lines(); ++i)
    targets.push_back(i % 5 == 4 ? -1 : 7919 * i % shape.features);
  return targets;
}

/// Packs every rank's local tensor and joins them, as the tracer does.
inline at::Tensor traced(const std::vector<at::Tensor>& locals, const LogicalShape& shape,
                         const json& compressor) {
  const bool is_double = locals.front().scalar_type() == at::kDouble;
  const auto packing = parsed(compressor, shape)->packing(shape, is_double);
  const std::vector<std::int64_t> targets = targets_of(shape);
  std::vector<std::vector<double>> storage;
  std::vector<const std::byte*> parts;
  for (std::size_t rank = 0; rank < locals.size(); ++rank) {
    const std::size_t bytes = packing->part_bytes(rank);
    storage.emplace_back((bytes + 7) / 8, std::numeric_limits<double>::quiet_NaN());
    const auto part = std::as_writable_bytes(std::span(storage.back())).first(bytes);
    // Columns stand next to each other, lines need not: a view of something wider.
    const at::Tensor wide = at::cat({locals[rank], locals[rank]}, -1);
    const at::Tensor local = wide.narrow(-1, 0, locals[rank].size(-1));
    if (bytes > 0) packing->pack({1, targets}, rank, local, part);
    parts.push_back(bytes > 0 ? part.data() : nullptr);
  }
  at::Tensor out = at::empty(packing->shape(), locals.front().options());
  packing->join({1, targets}, parts, static_cast<std::byte*>(out.mutable_data_ptr()));
  return out;
}

inline at::Tensor traced_on(const at::Tensor& whole, const Layout& layout, int ranks,
                            const Traced& wanted) {
  const LogicalShape shape = shape_on(whole, layout, ranks, wanted);
  std::vector<at::Tensor> locals;
  for (int rank = 0; rank < ranks; ++rank) locals.push_back(part_on(whole, shape, rank));
  return traced(locals, shape, wanted.compressor);
}

inline at::Tensor normal(at::IntArrayRef sizes, at::ScalarType dtype, std::uint64_t seed = 7) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kDouble).to(dtype);
}

/// The same bits, NaN included.
inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  return a.numel() == 0 || std::memcmp(a.contiguous().const_data_ptr(),
                                       b.contiguous().const_data_ptr(), a.nbytes()) == 0;
}

}  // namespace tt::trace::packing
