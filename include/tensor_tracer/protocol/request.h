#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>

#include "tensor_tracer/base/result.h"

/// The table of requests of docs/protocol.md. A row is a struct: kRow describes how the request is
/// handled, kFields names the members of its `params`. The variant that lists the row states which
/// program answers the request. std::visit finds the handler. To add a request, write its struct,
/// add the struct to the variant, and write the handler. Any thread may call the functions here.
namespace tt::protocol {

struct Row {
  std::string_view method;
  /// The sender must hold the lease. A request to the trainer without this flag changes nothing and
  /// is answered between steps.
  bool needs_lease = false;
  /// The answer may come after any length of time: no time limit applies.
  bool takes_long = false;
  /// False: only the hub and the link send this request.
  bool from_viewers = true;
};

/// One member of `params`. The member is optional if `Value` is a std::optional. `least` and `most`
/// are the limits of a number, or of a text's length in bytes. A JSON value has no limits here: the
/// request's handler checks the value.
template <typename Request, typename Value>
struct Field {
  std::string_view name;
  Value Request::*member;
  double least = 0;
  double most = 0;
};
template <typename Request, typename Value, typename... Limits>
Field(std::string_view, Value Request::*, Limits...) -> Field<Request, Value>;

struct NoFields {
  static constexpr std::tuple<> kFields{};
};

inline constexpr double kMaxControllerNameBytes = 64;
inline constexpr double kMaxProgramNameBytes = 64;
inline constexpr double kMaxAlarmNameBytes = 64;
inline constexpr double kMaxStages = 256;
inline constexpr double kMaxPromptNameBytes = 64;
inline constexpr double kMaxPromptTextBytes = 65'536;  // the largest message of a viewer

// --- The first message ---------------------------------------------------------------------------

struct ViewerHello {
  std::string role = {};  // "viewer" or "controller"
  std::optional<nlohmann::json> versions = {};
  std::optional<nlohmann::json> client = {};  // for people to read
  std::optional<std::string> name = {};       // of a controller
  std::optional<std::uint64_t> window = {};   // binary messages that may wait for an `ack`; 0: all
  std::optional<bool> watch = {};  // false: no records, and it does not count, until `subscribe`
  static constexpr Row kRow{.method = "hello"};
  static constexpr std::tuple kFields{Field{"role", &ViewerHello::role, 0, 64},
                                      Field{"versions", &ViewerHello::versions},
                                      Field{"client", &ViewerHello::client},
                                      Field{"name", &ViewerHello::name, 0, kMaxControllerNameBytes},
                                      Field{"window", &ViewerHello::window, 0, 1024},
                                      Field{"watch", &ViewerHello::watch}};
};

struct WorkerHello {
  std::string role = {};  // "worker"
  std::optional<nlohmann::json> versions = {};
  std::optional<nlohmann::json> client = {};  // for people to read
  std::optional<std::uint64_t> rank = {};     // global
  std::optional<std::uint64_t> stage = {};    // the pipeline stage that it leads; 0 if absent
  std::optional<std::uint64_t> stages = {};   // the run's number of pipeline stages; 1 if absent
  nlohmann::json run = {};                    // the run's facts
  static constexpr Row kRow{.method = "hello"};
  static constexpr std::tuple kFields{Field{"role", &WorkerHello::role, 0, 64},
                                      Field{"versions", &WorkerHello::versions},
                                      Field{"client", &WorkerHello::client},
                                      Field{"rank", &WorkerHello::rank, 0, 4'294'967'295},
                                      Field{"stage", &WorkerHello::stage, 0, kMaxStages - 1},
                                      Field{"stages", &WorkerHello::stages, 1, kMaxStages},
                                      Field{"run", &WorkerHello::run}};
};

// --- Requests that the hub answers ---------------------------------------------------------------

struct Ping : NoFields {
  static constexpr Row kRow{.method = "ping"};
};

/// Each member restricts the records that are sent. A member that is null or "all" does not
/// restrict.
struct Subscribe {
  std::optional<nlohmann::json> entries = {};
  std::optional<nlohmann::json> points = {};
  std::optional<nlohmann::json> layers = {};
  std::optional<nlohmann::json> rate = {};
  static constexpr Row kRow{.method = "subscribe"};
  static constexpr std::tuple kFields{
      Field{"entries", &Subscribe::entries}, Field{"points", &Subscribe::points},
      Field{"layers", &Subscribe::layers}, Field{"rate", &Subscribe::rate}};
};

struct ClaimControl {
  std::optional<std::string> name = {};
  std::optional<bool> take_over = {};
  static constexpr Row kRow{.method = "control.claim"};
  static constexpr std::tuple kFields{
      Field{"name", &ClaimControl::name, 0, kMaxControllerNameBytes},
      Field{"take_over", &ClaimControl::take_over}};
};

struct ReleaseControl : NoFields {
  static constexpr Row kRow{.method = "control.release", .needs_lease = true};
};

struct ListViewers : NoFields {
  static constexpr Row kRow{.method = "viewers.list"};
};

/// An alarm on a curve: docs/alarms.md. A curve is a scalar of the steps, or a number drawn from
/// the records of a point. The hub checks that the members fit together.
struct SetAlarm {
  std::string name = {};
  std::optional<std::string> scalar = {};     // "loss"
  std::optional<std::string> point = {};      // or a point's name, with `statistic` or `vector`
  std::optional<std::string> statistic = {};  // of a `stats` or `topk` record, or "value"
  std::optional<std::string> vector = {};     // of a `projection` record
  std::optional<std::string> over = {};       // lines: "mean" (if absent), "largest" or "last"
  std::optional<std::string> column = {};     // of "value": a number from 0, or its name
  std::optional<std::string> parameter = {};  // of "value": the name of a line
  std::optional<std::string> layers = {};     // "1-4,8"; absent: all
  std::optional<std::string> direction = {};  // "value" (if absent) or "gradient"
  std::optional<std::string> phase = {};      // "train" (if absent) or "eval"
  std::optional<std::string> prompts = {};    // name of a prompt set
  std::optional<std::string> mean_over = {};  // as of a plan entry, whose records it then follows
  std::optional<bool> baseline = {};          // compares with the start of the run
  std::string test = {};                      // "above", "sigma", …
  std::optional<double> value = {};           // limit of the value, or of the slope per step
  std::optional<double> low = {};
  std::optional<double> high = {};
  std::optional<double> k = {};                   // standard deviations
  std::optional<std::string> side = {};           // "both" (if absent), "above" or "below"
  std::optional<std::uint64_t> window = {};       // values
  std::optional<std::uint64_t> first = {};        // values
  std::optional<std::uint64_t> consecutive = {};  // values; 1 if absent
  std::optional<bool> pause = {};
  static constexpr Row kRow{.method = "alarms.set", .needs_lease = true};
  static constexpr double kLargest = 1e300;
  static constexpr std::tuple kFields{Field{"name", &SetAlarm::name, 1, kMaxAlarmNameBytes},
                                      Field{"scalar", &SetAlarm::scalar, 1, 64},
                                      Field{"point", &SetAlarm::point, 1, 256},
                                      Field{"statistic", &SetAlarm::statistic, 1, 64},
                                      Field{"vector", &SetAlarm::vector, 1, 256},
                                      Field{"over", &SetAlarm::over, 1, 64},
                                      Field{"column", &SetAlarm::column, 1, 64},
                                      Field{"parameter", &SetAlarm::parameter, 1, 256},
                                      Field{"layers", &SetAlarm::layers, 1, 256},
                                      Field{"direction", &SetAlarm::direction, 1, 64},
                                      Field{"phase", &SetAlarm::phase, 1, 64},
                                      Field{"prompts", &SetAlarm::prompts, 1, 256},
                                      Field{"mean_over", &SetAlarm::mean_over, 1, 64},
                                      Field{"baseline", &SetAlarm::baseline},
                                      Field{"test", &SetAlarm::test, 1, 64},
                                      Field{"value", &SetAlarm::value, -kLargest, kLargest},
                                      Field{"low", &SetAlarm::low, -kLargest, kLargest},
                                      Field{"high", &SetAlarm::high, -kLargest, kLargest},
                                      Field{"k", &SetAlarm::k, 0.1, 1000},
                                      Field{"side", &SetAlarm::side, 1, 64},
                                      Field{"window", &SetAlarm::window, 2, 1000},
                                      Field{"first", &SetAlarm::first, 2, 1000},
                                      Field{"consecutive", &SetAlarm::consecutive, 1, 1000},
                                      Field{"pause", &SetAlarm::pause}};
};

struct RemoveAlarm {
  std::string name = {};
  static constexpr Row kRow{.method = "alarms.remove", .needs_lease = true};
  static constexpr std::tuple kFields{Field{"name", &RemoveAlarm::name, 1, kMaxAlarmNameBytes}};
};

struct ListAlarms : NoFields {
  static constexpr Row kRow{.method = "alarms.list"};
};

/// From now on all traced records are kept.
struct KeepRun : NoFields {
  static constexpr Row kRow{.method = "run.keep", .needs_lease = true};
};

using HubRequest = std::variant<Ping, Subscribe, ClaimControl, ReleaseControl, ListViewers,
                                SetAlarm, RemoveAlarm, ListAlarms, KeepRun>;

// --- Requests that the trainer answers, or a replay in its place ---------------------------------

struct PauseRun : NoFields {
  static constexpr Row kRow{.method = "control.pause", .needs_lease = true};
};

struct ContinueRun : NoFields {
  static constexpr Row kRow{.method = "control.continue", .needs_lease = true};
};

struct StopRun : NoFields {
  static constexpr Row kRow{.method = "control.stop", .needs_lease = true};
};

struct StepRun {
  std::optional<std::uint64_t> count = {};  // 1 if absent
  static constexpr Row kRow{.method = "control.step", .needs_lease = true, .takes_long = true};
  static constexpr std::tuple kFields{Field{"count", &StepRun::count, 1, 1'000'000}};
};

struct SetPlan {
  nlohmann::json plan = {};
  static constexpr Row kRow{.method = "plan.set", .needs_lease = true};
  static constexpr std::tuple kFields{Field{"plan", &SetPlan::plan}};
};

struct CheckPlan {
  nlohmann::json plan = {};
  static constexpr Row kRow{.method = "plan.check"};
  static constexpr std::tuple kFields{Field{"plan", &CheckPlan::plan}};
};

struct CheckProgram {
  nlohmann::json program = {};
  static constexpr Row kRow{.method = "intervention.check"};
  static constexpr std::tuple kFields{Field{"program", &CheckProgram::program}};
};

struct ApplyProgram {
  std::string name = {};
  nlohmann::json program = {};
  std::optional<nlohmann::json> parameters = {};  // values by name
  std::optional<std::uint64_t> ttl = {};          // steps
  std::optional<bool> keep = {};                  // the end of the lease does not end the program
  static constexpr Row kRow{.method = "intervention.apply", .needs_lease = true};
  static constexpr std::tuple kFields{
      Field{"name", &ApplyProgram::name, 1, kMaxProgramNameBytes},
      Field{"program", &ApplyProgram::program}, Field{"parameters", &ApplyProgram::parameters},
      Field{"ttl", &ApplyProgram::ttl, 1, 1'000'000'000}, Field{"keep", &ApplyProgram::keep}};
};

struct SetParameter {
  std::string name = {};  // of the program
  std::string parameter = {};
  nlohmann::json value = {};  // a number within the parameter's limits
  static constexpr Row kRow{.method = "intervention.set", .needs_lease = true};
  static constexpr std::tuple kFields{
      Field{"name", &SetParameter::name, 1, kMaxProgramNameBytes},
      Field{"parameter", &SetParameter::parameter, 1, kMaxProgramNameBytes},
      Field{"value", &SetParameter::value}};
};

struct RemovePrograms {
  std::optional<std::string> name = {};  // absent: all programs
  static constexpr Row kRow{.method = "intervention.remove", .needs_lease = true};
  static constexpr std::tuple kFields{
      Field{"name", &RemovePrograms::name, 1, kMaxProgramNameBytes}};
};

/// Removes the programs without `keep`.
struct RevertPrograms : NoFields {
  static constexpr Row kRow{
      .method = "intervention.revert", .needs_lease = true, .from_viewers = false};
};

struct PreviewProgram {
  nlohmann::json program = {};
  std::optional<nlohmann::json> parameters = {};  // values by name
  std::optional<nlohmann::json> plan = {};
  static constexpr Row kRow{.method = "intervention.preview", .needs_lease = true};
  static constexpr std::tuple kFields{Field{"program", &PreviewProgram::program},
                                      Field{"parameters", &PreviewProgram::parameters},
                                      Field{"plan", &PreviewProgram::plan}};
};

/// Saves a checkpoint of the last completed step.
struct SaveCheckpoint : NoFields {
  static constexpr Row kRow{.method = "checkpoint.save", .needs_lease = true};
};

/// Runs one text through the model.
struct RunPrompt {
  std::string text = {};
  std::optional<nlohmann::json> plan = {};  // absent: a default plan
  static constexpr Row kRow{.method = "prompt.run", .needs_lease = true, .takes_long = true};
  static constexpr std::tuple kFields{Field{"text", &RunPrompt::text, 0, kMaxPromptTextBytes},
                                      Field{"plan", &RunPrompt::plan}};
};

/// Adds a prompt set of one text to the run.
struct KeepPrompt {
  std::string name = {};
  std::string text = {};
  std::optional<nlohmann::json> plan = {};  // its entries join the plan in force; absent: defaults
  static constexpr Row kRow{.method = "prompt.keep", .needs_lease = true};
  static constexpr std::tuple kFields{Field{"name", &KeepPrompt::name, 1, kMaxPromptNameBytes},
                                      Field{"text", &KeepPrompt::text, 0, kMaxPromptTextBytes},
                                      Field{"plan", &KeepPrompt::plan}};
};

/// Ends a prompt set.
struct RemovePrompt {
  std::string name = {};
  static constexpr Row kRow{.method = "prompt.remove", .needs_lease = true};
  static constexpr std::tuple kFields{Field{"name", &RemovePrompt::name, 1, kMaxPromptNameBytes}};
};

/// Only a replay answers this request and the next one.
struct SeekReplay {
  std::uint64_t step = 0;
  static constexpr Row kRow{.method = "replay.seek", .needs_lease = true};
  static constexpr std::tuple kFields{Field{"step", &SeekReplay::step, 0, 9'007'199'254'740'991}};
};

struct SetReplaySpeed {
  double speed = 1;  // times the recorded pace
  static constexpr Row kRow{.method = "replay.speed", .needs_lease = true};
  static constexpr std::tuple kFields{Field{"speed", &SetReplaySpeed::speed, 0.1, 100}};
};

using TrainerRequest =
    std::variant<PauseRun, ContinueRun, StopRun, StepRun, SetPlan, CheckPlan, CheckProgram,
                 ApplyProgram, SetParameter, RemovePrograms, RevertPrograms, PreviewProgram,
                 RunPrompt, KeepPrompt, RemovePrompt, SaveCheckpoint, SeekReplay, SetReplaySpeed>;

/// The trainer's requests that change the programs in force.
using ProgramRequest = std::variant<ApplyProgram, SetParameter, RemovePrograms, RevertPrograms>;

// --- Reading and writing -------------------------------------------------------------------------

/// The error for a request that no handler here answers.
base::Error unknown_method(std::string_view method);

/// True if a viewer must hold the lease to send the request of this name, with any members.
bool needs_lease(std::string_view method);

/// Reads a viewer's request. Errors: "unknown_method"; "invalid_argument" with the member in
/// `where`.
base::Result<std::variant<HubRequest, TrainerRequest>> parse_viewer_request(
    std::string_view method, const nlohmann::json& params);

/// Reads a request that the hub passes on to the trainer or creates itself. Errors as above.
base::Result<TrainerRequest> parse_trainer_request(std::string_view method,
                                                   const nlohmann::json& params);

base::Result<ViewerHello> parse_viewer_hello(const nlohmann::json& params);
base::Result<WorkerHello> parse_worker_hello(const nlohmann::json& params);
/// Reads the members of an alarm from a request, a file or the hub's own copy.
base::Result<SetAlarm> parse_alarm(const nlohmann::json& params);

const Row& row_of(const TrainerRequest& request);

/// The `params` that `request` was read from.
nlohmann::json params_of(const TrainerRequest& request);
nlohmann::json params_of(const SetAlarm& alarm);
/// The whole message.
std::string encode_request(std::uint64_t id, const TrainerRequest& request);

}  // namespace tt::protocol
