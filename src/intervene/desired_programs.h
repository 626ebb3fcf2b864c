#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/intervene/report.h"
#include "tensor_tracer/trace/intervention_hooks.h"

namespace tt::intervene {

/// Global rank 0: the programs that requests set, before all ranks have them. Thread: the thread
/// that runs the step.
class DesiredPrograms {
 public:
  /// `context` outlives the object.
  explicit DesiredPrograms(const Context& context) : context_(context) {}

  /// As InterventionHooks::request(), has_changes() and take_changes().
  base::Result<nlohmann::json> request(const protocol::ProgramRequest& request,
                                       std::int64_t next_step);
  bool has_changes() const { return has_changes_; }
  trace::ProgramChanges take_changes(std::int64_t next_step);

  /// The program of this name; null if there is no such program or its source differs.
  std::shared_ptr<const CompiledProgram> find_compiled(const std::string& name,
                                                       const std::string& source);
  /// A rank could not take the changes: goes back to the programs in force. Removed programs stay
  /// removed and new parameter values stay set; take_changes() sends these changes again.
  void give_up_new(const ActivePrograms& in_force);
  void clear() { programs_.clear(); }

 private:
  struct Desired : ProgramSettings {
    std::shared_ptr<const CompiledProgram> compiled = {};
    trace::FileContents contents = {};  // of the program's files; empty once sent
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
