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

/// Prints the output of a run. Steps go to standard output, one line each, or as one moving line
/// with --progress-bar. With --log-format json all other output goes to standard error.
/// Thread: the thread that runs the step.
class RunLog {
 public:
  /// Prints on global rank 0 only.
  RunLog(const config::TrainConfig& config, const comm::Launch& launch);
  void corpus(const data::TextCorpus& corpus, double unigram_entropy);
  void model(std::int64_t num_parameters, const mesh::MeshShape& shape, const comm::Launch& launch);
  void hub(const link::HubInfo& hub);
  /// A hint about tracing, printed before tracing begins.
  void notice(const std::string& text);
  void step(const train::StepReport& report);
  /// Ends the moving line.
  void finish();
  /// The cost of tracing, printed when the run is over.
  void cost(const train::TracerCost& cost);

 private:
  void say(const std::string& line);
  void move_bar(const train::StepReport& report);

  const config::TrainConfig& config_;
  const bool is_first_;
  const bool on_terminal_;  // and no launcher, under which isatty is meaningless
  double mean_step_ms_ = 0.0;
  bool line_is_open_ = false;
};

}  // namespace tt::cli
