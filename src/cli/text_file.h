#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "src/cli/model_to_run.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/data/prompted_texts.h"

namespace tt::cli {

/// A file of texts that a model will run, read through once.
struct TextFile {
  std::string path;
  std::unique_ptr<data::PromptedTexts> texts;  // at the first text
  std::int64_t size = 0;                       // number of texts
  std::int64_t tokens = 0;
  std::int64_t longest = 0;        // tokens of a text, after the cut
  std::int64_t with_prompt = 0;    // texts
  std::int64_t with_response = 0;  // texts
  std::int64_t num_cut = 0;        // texts that are too long for the model
  std::string sha256;

  /// "file", "sha256", "texts" and "tokens".
  nlohmann::json facts() const;
};

/// Reads all texts of a file (data::PromptedTexts), so that an error is found before the model
/// runs. `option`: that errors name. `takes_generated`: as of data::read_line(). Error: a text that
/// cannot be read, has no token, or has more tokens than the model has positions and --overlong
/// does not cut; or there is no text.
base::Result<TextFile> read_text_file(const std::string& option, const std::string& path,
                                      const ModelToRun& model, const config::TrainConfig& config,
                                      bool takes_generated = false);

/// Gives every rank the numbers of texts that rank 0 counted. Collective over `world`.
void share_text_sizes(std::span<TextFile> files, const comm::ProcessGroup& world);

}  // namespace tt::cli
