#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/intervene/report.h"
#include "tensor_tracer/trace/intervention_hooks.h"

namespace tt::intervene {

/// Global rank 0: the programs that requests asked for, on their way to all ranks. Thread: the
/// thread that runs the step.
class DesiredPrograms {
 public:
  /// `context` outlives it.
  explicit DesiredPrograms(const Context& context) : context_(context) {}

  /// As InterventionHooks::request(), has_changes() and take_changes().
  base::Result<nlohmann::json> request(const protocol::ProgramRequest& request,
                                       std::int64_t next_step);
  bool has_changes() const { return has_changes_; }
  trace::ProgramChanges take_changes(std::int64_t next_step);

  /// The program of this name, if this is its source; else null.
  std::shared_ptr<const CompiledProgram> find_compiled(const std::string& name,
                                                       const std::string& source);
  /// A rank could not take the changes: those in force stay. What was removed or set meanwhile
  /// stays so, and is shared once more.
  void give_up_new(const ActivePrograms& in_force);
  void clear() { programs_.clear(); }

 private:
  struct Desired : ProgramSettings {
    std::shared_ptr<const CompiledProgram> compiled = {};
    trace::FileContents contents = {};  // of the files that it names, until it travels
  };

  base::Result<nlohmann::json> apply(const protocol::ApplyProgram& request, std::int64_t next_step);
  base::Result<nlohmann::json> set(const protocol::SetParameter& request);
  base::Result<nlohmann::json> remove(const protocol::RemovePrograms& request);
  nlohmann::json revert();
  Desired* find(const std::string& name);
  base::Error not_in_force(const std::string& name) const;
  void change(const char* reason);
  static nlohmann::json to_json(const Desired& one);

  const Context& context_;
  std::vector<Desired> programs_;
  bool has_changes_ = false;
  std::string reason_ = "apply";  // of the latest change
};

}  // namespace tt::intervene
