#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tensor_tracer/trace/compressor.h"
#include "tensor_tracer/trace/plan.h"

/// The records that an entry makes from a pass, computed before the pass exists.
namespace tt::trace {

/// Forward passes of the same size.
struct PassSize {
  std::int64_t rows = 0;  // of the batch
  std::int64_t tokens = 0;
  std::int64_t passes = 1;
};

/// The passes that an entry may take, the largest first: micro-batches of data, or micro-batches of
/// a prompt set. The last micro-batch of a prompt set may have fewer rows.
std::vector<PassSize> pass_sizes(const PlanEntry& entry, const PlanContext& context);

/// Number of tokens that an entry takes from a pass; 0 if its tokens lie outside the pass.
std::int64_t tokens_in(const PlanEntry& entry, const PassSize& size);

/// Number of batch rows that an entry takes from a pass; 0 if its rows lie outside the pass.
std::int64_t rows_in(const PlanEntry& entry, const PassSize& size);

/// Batch rows × lines that an entry takes from a pass; 0 if its rows or tokens lie outside the
/// pass.
std::int64_t lines_in(const PlanEntry& entry, const PlanContext& context, const PassSize& size);

/// Packing and shape of the record of one layer.
struct PassShape {
  std::shared_ptr<const Packing> packing;  // null: integers
  std::vector<std::int64_t> shape;
};

/// Nullopt if rows or tokens lie outside the pass. Throws CheckError if an expression does not fit
/// the pass.
std::optional<PassShape> shape_in(const PlanEntry& entry, const PlanContext& context,
                                  const PassSize& size);

/// Number of layers that an entry takes.
int layers_taken(const PlanEntry& entry, const PlanContext& context);

/// Checks that no pass sends or gathers more bytes than the limits allow.
base::Status check_pass_bytes(const Plan& plan, const PlanContext& context);

/// Bytes of a record with its header.
std::size_t bytes_of_record(const std::vector<std::int64_t>& shape, protocol::Dtype dtype);

}  // namespace tt::trace
