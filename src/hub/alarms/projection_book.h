#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/hub/alarms/detector.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/protocol/record.h"

namespace tt::hub {

/// A projection that entries of the plan take with `mean_over`, on one vector.
struct ProjectionSeries {
  std::string point;  // its name
  std::string vector;
  std::string prompts;    // name of the set
  std::string mean_over;  // "prompt", "last-prompt" or "response"
  std::string scale;      // "normalized", "raw" or "cosine"
  auto operator<=>(const ProjectionSeries&) const = default;
};

/// The mean of a series over the prompts of its set, at one layer.
struct ProjectionMean {
  ProjectionSeries series;
  std::uint16_t layer = 0;  // 0: the point has no layers
  std::uint64_t step = 0;
  double value = 0;
  /// Over the same prompts at the run's start; absent: the run did not take it.
  std::optional<Baseline> baseline = {};
};

/// The series of a plan entry, in the order of its vectors; none if the entry is no projection with
/// `mean_over`. `name`: of its point.
std::vector<ProjectionSeries> series_of(const nlohmann::json& entry, const std::string& name);

/// "projections" of docs/protocol.md, for means of the same step.
nlohmann::json describe(const std::vector<ProjectionMean>& means);

/// Follows the projections with `mean_over`: their means over all prompts, and the baselines.
/// Thread: the hub's I/O thread only.
class ProjectionBook {
 public:
  /// Layers and series together; further ones are left out.
  static constexpr std::size_t kMaxLines = 4096;

  /// `path`: of the file that keeps the baselines for a hub that is started again; empty: none.
  /// Reads it, if it is of this run.
  ProjectionBook(std::string path, std::string run_id);

  /// The run's facts, or its plan, have changed.
  void follow(const nlohmann::json& facts);
  /// A record of another entry, or a damaged one, has no effect.
  void take(const protocol::RecordView& record);
  /// The means that have all prompts of their sets, or whose step is over, ordered by step; each is
  /// returned once.
  std::vector<ProjectionMean> finish();
  /// A record has come after the last finish(), and none of a step after `step`.
  bool has_late_records(std::uint64_t step) const { return has_news_ && newest_ <= step; }
  /// The newest means.
  std::vector<ProjectionMean> latest() const;
  /// Writes the baselines, if there are new ones. Error: of the disk.
  base::Status save();

 private:
  using Key = std::pair<ProjectionSeries, std::uint16_t>;  // with its layer
  struct Entry {
    std::vector<ProjectionSeries> series;
    std::size_t prompts = 0;  // that it takes; 0: not known
  };
  struct Line {
    std::uint64_t step = 0;
    std::deque<double> values = {};  // of the prompts of this step, not finished
    std::size_t prompts = 0;         // of this step, also those without a response
    std::size_t expected = 0;        // as Entry::prompts
    std::optional<ProjectionMean> latest = {};
    std::optional<Baseline> baseline = {};
  };
  void load();
  Line* line_of(const Key& key);
  void finish_line(const Key& key, Line& line);

  const std::string path_;
  const std::string run_id_;
  std::uint32_t plan_ = 0;
  std::uint64_t first_step_ = 0;            // the step of the baseline
  std::uint64_t newest_ = 0;                // step of a record
  std::map<std::uint32_t, Entry> entries_;  // by index
  std::map<Key, Line> lines_;
  std::vector<ProjectionMean> finished_;
  bool has_news_ = false;
  bool must_save_ = false;
};

}  // namespace tt::hub
