#pragma once

#include <cstdint>
#include <string>

#include "tensor_tracer/comm/launcher.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/data/text_corpus.h"
#include "tensor_tracer/link/hub_process.h"
#include "tensor_tracer/mesh/mesh.h"
#include "tensor_tracer/train/trainer.h"

namespace tt::cli {

/// What a run prints. Steps go to standard output, one line each, or one moving line with
/// --progress-bar; with --log-format json every other word goes to standard error.
/// Thread: the thread that runs the step.
class RunLog {
 public:
  /// Prints on global rank 0 only.
  RunLog(const config::TrainConfig& config, const comm::Launch& launch);
  void corpus(const data::TextCorpus& corpus, double unigram_entropy);
  void model(std::int64_t num_parameters, const mesh::MeshShape& shape, const comm::Launch& launch);
  void hub(const link::HubInfo& hub);
  /// A hint about tracing, before it begins.
  void notice(const std::string& text);
  void step(const train::StepReport& report);
  /// Ends a moving line.
  void finish();
  /// What tracing cost, when the run is over.
  void cost(const train::TracerCost& cost);

 private:
  void say(const std::string& line);
  void move_bar(const train::StepReport& report);

  const config::TrainConfig& config_;
  const bool is_first_;
  const bool on_terminal_;  // without a launcher, under which isatty says nothing
  double mean_step_ms_ = 0.0;
  bool line_is_open_ = false;
};

}  // namespace tt::cli
