#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tensor_tracer/data/prompted_texts.h"
#include "tensor_tracer/model/gpt.h"
#include "tensor_tracer/train/groups.h"
#include "tensor_tracer/vectors/contrast.h"
#include "tensor_tracer/vectors/group_sums.h"
#include "tensor_tracer/vectors/state_reader.h"
#include "tensor_tracer/vectors/text_spreader.h"

namespace tt::vectors {

/// The texts of one side.
struct ContrastTexts {
  data::PromptedTexts* texts = nullptr;  // at the first text; null on ranks other than 0
  std::int64_t size = 0;                 // number of texts
};
using Contrast = std::array<ContrastTexts, kNumSides>;

struct ExtractionOptions {
  bool includes_first_token = false;  // of each text
  double held_out = 0.2;              // share of the texts of each side, at its end
  std::int64_t most_tokens = 1;       // of a text; what is behind them is cut off
  std::int64_t batch_size = 1;        // texts of a replica that run together
  std::uint64_t seed = 0;             // of the bootstrap
};

/// Makes direction vectors of the difference between two sides of texts (Chen et al. 2025, "Persona
/// vectors", arXiv 2507.21509): for each kind the mean over the positive texts of their mean hidden
/// states, minus the same of the negative texts. If both sides have the same number of texts, texts
/// with one index are a pair. Thread: the thread that runs the model.
class Extraction {
 public:
  /// Called on global rank 0 for each text that is read.
  using OnText = std::function<void()>;
  /// With fewer texts of a side to hold out, none of either side is held out.
  static constexpr std::int64_t kLeastHeldOut = 4;

  /// `model` and `groups` outlive the object.
  Extraction(const model::Gpt& model, const train::Groups& groups, const ExtractionOptions& options,
             OnText on_text);

  /// The vectors by kind, on global rank 0; a kind without tokens on a side has no rows. Throws
  /// std::runtime_error if a text cannot be read any more, or if hidden states are not finite.
  /// Collective over all ranks.
  std::vector<ExtractedVector> run(const Contrast& contrast) const;

 private:
  struct Part;
  std::int64_t held_out(const Contrast& contrast, std::int64_t side) const;
  std::optional<NumberedText> pull(const Part& part, std::int64_t& next) const;
  void visit_part(
      const Part& part,
      const std::function<void(std::int64_t side, std::int64_t index, const StateMeans& means,
                               std::int64_t text)>& take) const;
  GroupSums sum_texts(const Contrast& contrast) const;
  at::Tensor project_held_out(const Contrast& contrast, const at::Tensor& directions) const;

  const model::Gpt& model_;
  const train::Groups& groups_;
  const ExtractionOptions options_;
  const OnText on_text_;
  const StateReader reader_;
  const TextSpreader spreader_;
};

}  // namespace tt::vectors
