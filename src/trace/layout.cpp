#include "tensor_tracer/trace/layout.h"

#include <algorithm>
#include <utility>

#include "tensor_tracer/base/check.h"

namespace tt::trace {
namespace {

// All borders between ranks inside [first, last), with first and last.
std::vector<std::int64_t> rank_borders(const std::vector<mesh::Interval>& held, std::int64_t first,
                                       std::int64_t last) {
  std::vector<std::int64_t> borders = {first, last};
  for (const mesh::Interval& interval : held) {
    for (const std::int64_t at : {interval.begin, interval.end})
      if (at > first && at < last) borders.push_back(at);
  }
  std::ranges::sort(borders);
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  return borders;
}

// An axis that is not sharded: a rank that holds part of the other axis holds all of this axis.
AxisLayout whole_axis(int ranks, const std::vector<std::int64_t>& boundaries) {
  AxisLayout axis;
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i + 1 < boundaries.size(); ++i) {
    const std::int64_t count = boundaries[i + 1] - boundaries[i];
    axis.blocks.push_back({boundaries[i], count, {}});
    chunks.push_back({boundaries[i], boundaries[i], count, true});
  }
  axis.chunks.assign(static_cast<std::size_t>(ranks), chunks);
  return axis;
}

// The multiples of `block` inside the captured lines, with the first and the end of these lines.
std::vector<std::int64_t> line_boundaries(const LogicalShape& shape, std::int64_t block) {
  std::vector<std::int64_t> boundaries = {shape.first_line};
  for (std::int64_t at = shape.first_line - shape.first_line % block + block; at < shape.last_line;
       at += block)
    boundaries.push_back(at);
  boundaries.push_back(shape.last_line);
  return boundaries;
}

AxisLayout shard_lines(const LogicalShape& shape, const std::vector<mesh::Interval>& held,
                       int ranks, std::int64_t line_block) {
  return shard_axis(held, ranks,
                    line_block == 1 ? rank_borders(held, shape.first_line, shape.last_line)
                                    : line_boundaries(shape, line_block));
}

// From the chunks of the ranks along each of two sharded axes to those of all ranks.
void spread_chunks(CellLayout& layout) {
  std::vector<std::vector<Chunk>> lines, columns;
  for (const auto& of_context : layout.lines.chunks) {
    for (const auto& of_rank : layout.columns.chunks) {
      lines.push_back(of_context);
      columns.push_back(of_rank);
    }
  }
  layout.lines.chunks = std::move(lines);
  layout.columns.chunks = std::move(columns);
}

}  // namespace

std::vector<std::int64_t> LogicalShape::result_shape(std::int64_t last) const {
  std::vector<std::int64_t> shape = {rows};
  shape.insert(shape.end(), line_dims.begin(), line_dims.end());
  shape.push_back(last);
  return shape;
}

AxisLayout shard_axis(const std::vector<mesh::Interval>& held, int ranks,
                      const std::vector<std::int64_t>& boundaries) {
  AxisLayout axis;
  axis.chunks.resize(static_cast<std::size_t>(ranks));
  std::size_t first = 0;
  for (std::size_t i = 0; i + 1 < boundaries.size(); ++i) {
    const std::int64_t begin = boundaries[i];
    const std::int64_t end = boundaries[i + 1];
    Block block{begin, end - begin, {}};
    while (held[first].end <= begin) ++first;
    std::vector<std::int64_t> local;
    for (std::size_t at = first; at < held.size() && held[at].begin < end; ++at) {
      const std::int64_t from = std::max(begin, held[at].begin);
      const std::int64_t to = std::min(end, held[at].end);
      block.shares.push_back({static_cast<std::size_t>(held[at].owner), from - begin, to - from});
      local.push_back(held[at].local_begin + from - held[at].begin);
    }
    for (std::size_t s = 0; s < block.shares.size(); ++s) {
      const Share& share = block.shares[s];
      axis.chunks[share.rank].push_back(
          {begin + share.offset, local[s], share.count, block.whole()});
    }
    axis.blocks.push_back(std::move(block));
  }
  return axis;
}

int chunks_of(const mesh::Placement& placement) {
  return placement.is_sharded() ? placement.segments.front().chunks : 1;
}

CellLayout make_cell_layout(const LogicalShape& shape, std::int64_t line_block,
                            std::vector<std::int64_t> column_boundaries) {
  const bool shards_lines = shape.placement.is_sharded() && shape.placement.dim == 1;
  TT_CHECK(shards_lines || !shape.placement.is_sharded() || shape.placement.dim == 2,
           "a capture is sharded by lines or by columns");
  const int ranks = shape.placement_ranks();
  const auto held =
      owned_intervals(shape.placement, ranks, shards_lines ? shape.lines : shape.features);
  if (column_boundaries.empty()) {
    column_boundaries = shards_lines ? std::vector<std::int64_t>{0, shape.features}
                                     : rank_borders(held, 0, shape.features);
  }
  CellLayout layout;
  layout.rows = shape.rows;
  if (shards_lines) {
    layout.lines = shard_lines(shape, held, ranks, line_block);
    layout.columns = whole_axis(ranks, column_boundaries);
    return layout;
  }
  layout.columns = shard_axis(held, ranks, column_boundaries);
  layout.column_ranks = static_cast<std::size_t>(ranks);
  if (!shape.contexts.is_sharded()) {
    layout.lines =
        whole_axis(ranks, line_block == 1 ? std::vector{shape.first_line, shape.last_line}
                                          : line_boundaries(shape, line_block));
    return layout;
  }
  const int contexts = shape.ranks / ranks;
  layout.lines = shard_lines(shape, owned_intervals(shape.contexts, contexts, shape.lines),
                             contexts, line_block);
  spread_chunks(layout);
  return layout;
}

std::vector<std::int64_t> tile_boundaries(std::int64_t features, std::int64_t tiles) {
  TT_CHECK(tiles > 0 && tiles <= features, "more tiles than columns");
  std::vector<std::int64_t> boundaries;
  for (std::int64_t tile = 0; tile <= tiles; ++tile) boundaries.push_back(tile * features / tiles);
  return boundaries;
}

std::vector<std::int64_t> even_boundaries(std::int64_t features, std::int64_t width) {
  std::vector<std::int64_t> boundaries;
  for (std::int64_t at = 0; at < features; at += width) boundaries.push_back(at);
  boundaries.push_back(features);
  return boundaries;
}

}  // namespace tt::trace
