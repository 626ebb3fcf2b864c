#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tensor_tracer/trace/compressor.h"
#include "tensor_tracer/trace/plan.h"

/// What an entry makes of a pass, before there is one.
namespace tt::trace {

/// Forward passes of one size.
struct PassSize {
  std::int64_t rows = 0;  // of the batch
  std::int64_t tokens = 0;
  std::int64_t passes = 1;
};

/// The passes that an entry may be taken in, the largest first: micro-batches of data, or those of
/// a set of prompts, the last of which may have fewer rows.
std::vector<PassSize> pass_sizes(const PlanEntry& entry, const PlanContext& context);

/// Batch rows that an entry takes of a pass; 0 where it lies beyond.
std::int64_t rows_in(const PlanEntry& entry, const PassSize& size);

/// Batch rows × lines that an entry takes of a pass; 0 where it lies beyond.
std::int64_t lines_in(const PlanEntry& entry, const PlanContext& context, const PassSize& size);

/// Of the record of one layer.
struct PassShape {
  std::shared_ptr<const Packing> packing;  // null: integers
  std::vector<std::int64_t> shape;
};

/// Nothing where rows or tokens lie beyond the pass. Throws CheckError where an expression does not
/// fit it.
std::optional<PassShape> shape_in(const PlanEntry& entry, const PlanContext& context,
                                  const PassSize& size);

/// Layers that an entry takes.
int layers_taken(const PlanEntry& entry, const PlanContext& context);

/// Checks that no pass sends or gathers more bytes than the limits allow.
base::Status check_pass_bytes(const Plan& plan, const PlanContext& context);

/// Bytes of a record with its header.
std::size_t bytes_of_record(const std::vector<std::int64_t>& shape, protocol::Dtype dtype);

}  // namespace tt::trace
