#include <algorithm>
#include <functional>
#include <utility>

#include "src/trace/compress/cells.h"
#include "src/trace/compress/kinds.h"
#include "src/trace/device/reducers.h"
#include "src/trace/json_fields.h"

namespace tt::trace {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxColumns = 32;
constexpr std::int64_t kDefaultK = 20, kMaxK = 100;

// The first number of each block. Each chosen column is a block.
template <typename Number_>
struct FirstMethod : CellMethod {
  using Number = Number_;
  using Value = Number_;
  static constexpr std::string_view kCompressor = "top_tokens";
  std::vector<std::size_t> chosen;  // blocks, one for each unit

  std::int64_t values(std::int64_t /*width*/) const { return 1; }
  FirstMethod kernel(const CaptureFacts& /*facts*/) const { return {{}, chosen}; }
  template <typename Element>
  device::Prepared<device::FirstReducer<Element>> device(const CaptureFacts&, at::Device) const {
    return {};
  }
  void reduce(const Cell<Number>& cell, Number* out) const { *out = cell.data[0]; }

  void combine(const FirstMethod& /*kernel*/, std::span<Number> firsts, std::int64_t lines,
               const std::vector<const std::byte*>& /*tails*/, Number* out) const {
    const std::size_t of_line = firsts.size() / static_cast<std::size_t>(lines);
    for (std::size_t line = 0; line < firsts.size(); line += of_line)
      for (const std::size_t block : chosen) *out++ = firsts[line + block];
  }
};

std::shared_ptr<const Packing> column_packing(const std::vector<std::int64_t>& columns,
                                              const LogicalShape& shape, bool is_double) {
  std::vector<std::int64_t> borders = {0, shape.features};
  for (const std::int64_t column : columns) {
    borders.push_back(column);
    borders.push_back(column + 1);
  }
  // A block that crosses a border between ranks would travel as it is.
  if (shape.placement.is_sharded() && shape.placement.dim == 2)
    for (const auto& held :
         owned_intervals(shape.placement, shape.placement_ranks(), shape.features))
      borders.push_back(held.begin);
  std::ranges::sort(borders);
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  std::vector<std::size_t> chosen;
  for (const std::int64_t column : columns) {
    chosen.push_back(
        static_cast<std::size_t>(std::ranges::find(borders, column) - borders.begin()));
  }
  return make_cell_packing<FirstMethod>(is_double, shape, make_cell_layout(shape, 1, borders),
                                        shape.result_shape(std::ssize(columns)), chosen);
}

base::Result<std::vector<std::int64_t>> parse_columns(const json& list, const std::string& where,
                                                      std::int64_t features) {
  std::vector<std::int64_t> columns;
  const bool is_list = list.is_array() && !list.empty() && list.size() <= kMaxColumns;
  for (const json& column : is_list ? list : json::array()) {
    if (auto status = check_integer(column, where, 0, features - 1); !status) return status.error();
    columns.push_back(column.get<std::int64_t>());
  }
  if (is_list) return columns;
  return base::invalid_argument(
      where, "must be a list of 1 to " + std::to_string(kMaxColumns) + " columns",
      "columns count from 0, such as [5, 17]");
}

// The packing of the units, [rows, tokens, units], and their number.
base::Result<Compressor> parse_units(const json& text, const std::string& where,
                                     const CompressorContext& context) {
  if (text.contains("columns")) {
    auto columns = parse_columns(text["columns"], where + ".columns", context.point.features);
    if (!columns) return columns.error();
    return Compressor{.form = {{"columns", columns.value()}},
                      .code = protocol::RecordCompressor::kTopTokens,
                      .packing = std::bind_front(column_packing, columns.value()),
                      .kept = {.units = std::ssize(columns.value())}};
  }
  json directions = {{"kind", "projection"}};
  for (const char* member : {"vectors", "normalize", "layer_base"})
    if (text.contains(member)) directions[member] = text[member];
  auto projection = parse_projection(directions, where, context);
  if (!projection) return projection.error();
  Compressor units = *projection.value();
  units.kept.units = std::ssize(units.form["vectors"]);
  return units;
}

}  // namespace

ParsedCompressor parse_top_tokens(const json& text, const std::string& where,
                                  const CompressorContext& context) {
  if (context.point.dims.size() > 3) {
    return base::invalid_argument(where, context.point.name + " has too many dims for top_tokens",
                                  "use a point of [batch, sequence, features]");
  }
  base::Status status = refuse_unknown_keys(
      text, where, {"kind", "columns", "vectors", "normalize", "layer_base", "k"});
  if (status && text.contains("columns") == text.contains("vectors")) {
    status = base::invalid_argument(where, "needs either columns or vectors",
                                    "such as {\"kind\": \"top_tokens\", \"columns\": [5]}");
  }
  std::int64_t k = kDefaultK;
  if (status) status = parse_integer(text, "k", where, 1, kMaxK, k);
  if (!status) return status.error();
  auto units = parse_units(text, where, context);
  if (!units) return units.error();
  Compressor compressor = std::move(units).value();
  compressor.form["kind"] = "top_tokens";
  compressor.form["k"] = k;
  compressor.code = protocol::RecordCompressor::kTopTokens;
  compressor.needs_full_precision = true;
  compressor.kept.k = k;
  return parsed(std::move(compressor));
}

}  // namespace tt::trace
