#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/record/export/output_file.h"

namespace tt::record {

/// The values of one step, in TensorBoard's terms: tags are grouped by what stands before a slash.
class Summary {
 public:
  void add_scalar(std::string_view tag, float value);
  /// `counts` of even bins from `low` to `high`; `sum` and `squares` of what was counted.
  void add_histogram(std::string_view tag, double low, double high, double sum, double squares,
                     std::span<const double> counts);
  bool empty() const { return bytes_.empty(); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// A TensorBoard event file. Every call throws Failure when the disk refuses. Thread: one.
class EventFile {
 public:
  EventFile(const std::string& path, std::uint64_t start_ns);
  void add(std::uint64_t step, std::uint64_t time_ns, const Summary& summary);
  void commit() { file_.commit(); }

 private:
  void write_event(std::string_view event);

  OutputFile file_;
};

}  // namespace tt::record
