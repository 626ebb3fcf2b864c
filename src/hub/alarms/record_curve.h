#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/hub/alarms/projection_book.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/protocol/record.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::hub {

/// Draws the numbers of an alarm's curve from the records of a plan.
/// Thread: the hub's I/O thread only.
class RecordCurve {
 public:
  /// `facts`: the run's facts with the plan in force. Errors: no such point, or no entry of the
  /// plan takes these records. REQUIRES: check_alarm(alarm).ok() and the alarm has a point.
  static base::Result<RecordCurve> find(const protocol::SetAlarm& alarm,
                                        const nlohmann::json& facts);

  /// The entries of the plan that it draws from.
  std::set<std::uint32_t> entries() const;
  /// Nothing if the record is not of this curve, or is damaged.
  std::optional<double> number_of(const protocol::RecordView& record) const;
  /// True if the alarm has `mean_over`, and this is its curve. number_of() then has no use.
  bool has(const ProjectionMean& mean) const {
    return series_ == mean.series && (!layers_ || layers_->contains(mean.layer));
  }

 private:
  /// The lines of a record that make one number.
  enum class Over { kMean, kLargest, kLast };
  /// The column of a record and its line; nothing: all of them.
  struct Cell {
    std::optional<std::size_t> column = {};
    std::optional<std::size_t> line = {};
    std::size_t first_token = 0;  // position of the entry's first token
  };
  /// The numbers of the tokens of each row.
  using Rows = std::vector<std::vector<double>>;

  /// Of `value`: sets the cell by the names in the facts of the point.
  base::Status choose_cell(const protocol::SetAlarm& alarm, const nlohmann::json& point);
  base::Status take_entry(const protocol::SetAlarm& alarm, const nlohmann::json& entry,
                          std::uint32_t index);
  bool has(const protocol::RecordHeader& header) const;
  std::optional<double> value_of(const std::vector<double>& numbers,
                                 const protocol::RecordHeader& header, const Cell& cell) const;
  std::optional<double> prediction_of(const std::vector<double>& numbers,
                                      const protocol::RecordHeader& header, const Cell& cell) const;
  /// True for a token after the end of a prompt. `row` and `token` count in the record, from 0.
  bool is_padding(const protocol::RecordHeader& header, const Cell& cell, std::size_t row,
                  std::size_t token) const;
  /// Nothing if no row has a token.
  std::optional<double> over_rows(const Rows& rows) const;

  std::uint32_t plan_ = 0;
  std::map<std::uint32_t, Cell> entries_;  // by index
  std::optional<std::set<std::uint16_t>> layers_;
  std::optional<std::uint64_t> prompt_set_;  // none: the run's own data
  std::vector<std::size_t> lengths_;         // tokens of each prompt of the set; empty: not known
  protocol::RecordPhase phase_ = protocol::RecordPhase::kTrain;
  std::string statistic_;
  protocol::RecordCompressor compressor_ = protocol::RecordCompressor::kNone;
  std::optional<ProjectionSeries> series_;  // of an alarm with `mean_over`: of the first entry
  Over over_ = Over::kMean;
  Cell cell_;  // of `value`
};

}  // namespace tt::hub
