#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/cli/run_tokenizer.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/data/documents.h"
#include "tensor_tracer/data/samples.h"
#include "tensor_tracer/data/text_corpus.h"
#include "tensor_tracer/data/token_source.h"

namespace tt::cli {

/// The form of a dataset.
enum class DataForm { kText, kJsonl, kIndexed, kPrepared };

/// One dataset of --data-path.
struct Dataset {
  DataForm form = DataForm::kText;
  double weight = 1.0;
  std::vector<std::string> paths = {};                    // as given
  std::shared_ptr<const data::TextCorpus> files = {};     // their bytes
  std::shared_ptr<const data::TokenSource> tokens = {};   // of text
  std::shared_ptr<const data::Documents> documents = {};  // of the other forms

  bool is_joined(const config::DataConfig& config) const;
};

/// The data of a run: docs/data.md.
class RunData {
 public:
  /// Opens the files of --data-path, on every rank. Error: a path has no known
  /// form.
  static base::Result<RunData> open(const config::DataConfig& config);

  /// Reads and checks all datasets. Global rank 0, before MPI starts. Error: a dataset is damaged,
  /// does not fit the tokenizer or the sequence length, or is too small for --split.
  base::Status read(const config::TrainConfig& config, const RunTokenizer& tokenizer);
  /// Gives every rank the tokens that rank 0 made, and reads the other datasets. Collective.
  base::Status share(const config::TrainConfig& config, const RunTokenizer& tokenizer,
                     const comm::ProcessGroup& world);

  /// Names the files and the weights, and says whether two runs have the same data: sizes and
  /// hashes of samples.
  std::string description() const;
  /// For the terminal: a line for each dataset. REQUIRES: read().
  std::vector<std::string> lines() const;
  /// For the terminal: documents that were cut or left out.
  std::vector<std::string> notices() const;
  /// Entropy of single tokens in nats, the mean over the datasets by weight. REQUIRES: read().
  double unigram_entropy() const { return entropy_; }
  /// True: each token is a byte.
  bool has_bytes() const;
  const data::Blend& blend() const { return blend_; }

 private:
  base::Status make_blend(const config::TrainConfig& config);

  std::vector<Dataset> datasets_;
  data::Blend blend_;
  double entropy_ = 0;
};

}  // namespace tt::cli
