#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/intervene/context.h"
#include "tensor_tracer/trace/intervention_hooks.h"

namespace tt::intervene {

/// Limits besides those of graph and eval; each has a test.
inline constexpr std::size_t kMaxPrograms = 32;
/// Elements of any value of a program, and element operations of all its lines in one forward.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 31;
inline constexpr double kMaxCost = 1e11;
/// Bytes that the lines of a program hold at one time, besides a few times the largest place that
/// it names: this much a program may always make of its inputs.
inline constexpr std::int64_t kMaxLiveBytes = std::int64_t{1} << 31;
inline constexpr std::int64_t kMaxLivePlaces = 4;
inline constexpr std::int64_t kMaxTriedElements = std::int64_t{1} << 24;  // eval::Limits, by line
inline constexpr std::int64_t kMaxSentNumbers = 65'536;
inline constexpr std::int64_t kMaxKeptNumbers = std::int64_t{1} << 24;  // of one program's saves
inline constexpr std::size_t kMaxSentOfStep = std::size_t{1}
                                              << 20;  // numbers of all saves, by rank

struct ActiveProgram;

/// The programs of one rank.
///
/// A program is compiled for the shape of a forward once: each value is an eval::Program. It runs
/// on this rank's shards where every operator rounds exactly and acts on each number alone and all
/// tensors it meets are sharded alike, otherwise on gathered logical tensors by every rank. A value
/// is freed when its last user has run. Owner: the caller; the engine outlives its passes. Thread:
/// as trace::InterventionHooks.
class Engine : public trace::InterventionHooks {
 public:
  /// `tensor`: along the tensor axis, in step with the model's own collectives. `world`: all ranks,
  /// for report() and end_preview().
  Engine(Context context, const comm::ProcessGroup& tensor, const comm::ProcessGroup& world);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  std::unique_ptr<trace::InterventionPass> begin(const trace::ForwardScope& scope,
                                                 const at::Tensor& tokens) override;

  base::Result<nlohmann::json> request(const protocol::ProgramRequest& request,
                                       std::int64_t next_step) override;
  bool has_changes() const override;
  trace::ProgramChanges take_changes(std::int64_t next_step) override;
  base::Status prepare(const trace::ProgramChanges& changes) override;
  void install(bool in_force) override;
  bool give_up() override;
  nlohmann::json describe(std::int64_t step) const override;
  std::optional<nlohmann::json> report(std::int64_t step) override;
  std::vector<nlohmann::json> take_saved() override;
  base::Result<trace::FileContents> read_files(const nlohmann::json& params) override;
  base::Status begin_preview(const nlohmann::json& params,
                             const trace::FileContents& contents) override;
  void turn_preview(bool acts) override;
  bool preview_writes_gradients() const override;
  nlohmann::json preview_writes() override;
  void end_preview() override;

 private:
  base::Result<std::shared_ptr<ActiveProgram>> stage(const nlohmann::json& one,
                                                     const Context& received) const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tt::intervene
