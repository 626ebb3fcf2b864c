#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/record/export/series.h"
#include "tensor_tracer/record/recording.h"

namespace tt::record {

/// What a run's facts call the numbers in its records. What they do not name is named by its
/// number. Thread: any.
class RunNames {
 public:
  explicit RunNames(const nlohmann::json& facts);

  std::string point(std::uint16_t flag) const;
  std::string prompt_set(std::uint32_t number) const;  // "" for 0, the run's own data
  /// The tokens of each of its prompts, which records fill up to the longest; none if not known.
  std::vector<std::uint64_t> prompt_lengths(std::uint32_t number) const;
  /// "batch", "heads", …; none if the facts have no such point.
  std::vector<std::string> dims(std::uint16_t flag) const;
  /// The points of the facts, by name.
  const std::map<std::string, std::uint16_t>& points() const { return flags_; }

 private:
  std::map<std::string, std::uint16_t> flags_;
  std::map<std::uint16_t, std::vector<std::string>> dims_;
  std::vector<std::string> prompt_sets_;
  std::vector<std::vector<std::uint64_t>> prompt_lengths_;  // as long as `prompt_sets_`
};

std::string compressor_name(protocol::RecordCompressor compressor);
std::string direction_name(protocol::RecordDirection direction);
std::string phase_name(protocol::RecordPhase phase);

/// What one series is called: as an array "HiddenStates.layers.3.gradient", in TensorBoard
/// "HiddenStates/layer_3/gradient".
struct SeriesName {
  std::string array;
  std::string tag;
};

/// One name for each series, none of them twice. Series that would share one get what tells them
/// apart: ".entry.2", ".data.1", ".none", ".bf16", ".1x64x8", …
std::vector<SeriesName> name_series(const std::vector<Series>& series, const RunNames& names);

}  // namespace tt::record
