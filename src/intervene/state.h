#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/intervene/execution_plan.h"
#include "src/intervene/run.h"
#include "tensor_tracer/intervene/engine.h"

namespace tt::intervene {

/// One forward and its backward. Tensor hooks hold it until the graph is gone.
struct Frame {
  explicit Frame(ForwardEnv surroundings) : around(std::move(surroundings)) {}
  ForwardEnv around;
  std::vector<std::shared_ptr<ActiveProgram>> programs;  // kept alive
  std::vector<Run> runs;
  std::shared_ptr<const ExecutionPlan> table;

  /// Does what is to be done; what stands in the place of `now` afterwards.
  at::Tensor act(std::span<const Action> actions, at::Tensor now);

 private:
  at::Tensor act(const Action& action, const at::Tensor& now);
};

/// A program that a request asked for, as it travels to the other ranks.
struct Desired {
  std::string name;
  std::shared_ptr<const CompiledProgram> compiled;
  std::map<std::string, double> targets;
  std::int64_t since = 1;
  std::optional<std::int64_t> until;
  bool keep = false;
  trace::FileContents contents = {};  // of the files that it names, until it travels
};

/// One of them as a rank has read it, with what becomes its own once all ranks could.
struct Staged {
  std::shared_ptr<ActiveProgram> program;
  std::map<std::string, double> targets;
  std::optional<std::int64_t> until;
  bool keep = false;
};

/// The same run, whose programs read `files` alone.
Context with_files(Context context, trace::ReceivedFiles& files);

/// The values of the program's parameters, with those in `given` by name; or which is wrong.
base::Result<std::map<std::string, double>> targets_of(const ActiveProgram& program,
                                                       const nlohmann::json& given);

struct Engine::State {
  State(Context about, const comm::ProcessGroup& along_tensor, const comm::ProcessGroup& all)
      : context(std::move(about)), tensor(along_tensor), world(all) {}

  const Context context;
  const comm::ProcessGroup tensor;
  const comm::ProcessGroup world;

  // Forward passes.
  std::shared_ptr<Frame> frame;  // of the open forward, and until its backward is done
  std::shared_ptr<const ExecutionPlan> table;  // of the forward before this one
  std::vector<std::uint64_t> table_is_for;     // what it was made of
  std::vector<nlohmann::json> saved;
  std::size_t numbers_sent = 0;  // by them

  // Programs.
  std::vector<std::shared_ptr<ActiveProgram>> in_force;
  std::vector<Staged> prepared;
  std::string reason = "apply";
  std::string prepared_reason;

  // Global rank 0: what is to be in force.
  std::vector<Desired> wanted;
  bool has_changed = false;
  std::string wanted_reason = "apply";

  // A preview.
  std::shared_ptr<ActiveProgram> preview;
  bool preview_acts = false;
  std::vector<Counts> counts_before;
  std::vector<std::map<ForwardKind, std::map<std::string, at::Tensor>>> kept_before;
  std::size_t saved_before = 0;
  std::size_t numbers_sent_before = 0;

  void add_runs(const std::shared_ptr<ActiveProgram>& program, std::vector<Entry>& entries,
                std::vector<std::uint64_t>& made_of);
  std::shared_ptr<const Specialization> agree_on_ready(ActiveProgram& program, const Shape& shape);
  void use_table(const std::vector<Entry>& entries, std::vector<std::uint64_t> made_of);
  /// Adds what ranks know of their shards alone to the counts, once there are more numbers of it.
  /// Collective along the tensor axis.
  void join_touched(std::int64_t more_than);
  void watch_gradient(const at::Tensor& value, std::size_t key);
  base::Result<nlohmann::json> apply(const protocol::ApplyProgram& request, std::int64_t next_step);
  base::Result<nlohmann::json> set(const protocol::SetParameter& request);
  base::Result<nlohmann::json> remove(const protocol::RemovePrograms& request);
  nlohmann::json revert();
  void give_up_what_is_new();
  base::Error not_in_force(const std::string& name) const;
  Desired* find_wanted(const std::string& name);
  base::Result<std::shared_ptr<ActiveProgram>> start(const std::string& name, std::int64_t since,
                                                     const nlohmann::json& program,
                                                     const Context& received);
};

}  // namespace tt::intervene
