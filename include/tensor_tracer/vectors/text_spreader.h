#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tensor_tracer/data/prompted_texts.h"
#include "tensor_tracer/train/groups.h"

namespace tt::vectors {

struct NumberedText {
  std::int64_t number = 0;  // as the caller counts
  data::PromptedText text;
};

/// The next text, without the tokens behind the first `most`. Throws std::runtime_error if it
/// cannot be read. REQUIRES: a text was left when the file was read before.
data::PromptedText next_text(data::PromptedTexts& texts, std::int64_t most);

/// Gives texts that global rank 0 reads to the data replicas. A few batches are in memory at a
/// time; in them, texts of about the same length run together. Thread: the thread that runs the
/// model.
class TextSpreader {
 public:
  /// Global rank 0: the next text; nullopt: none is left.
  using Pull = std::function<std::optional<NumberedText>()>;
  /// Takes the texts of this rank's replica for one forward, at most a batch, perhaps none. Called
  /// equally often on every rank.
  using Visit = std::function<void(std::vector<NumberedText>)>;

  /// `groups` outlives the object. `batch_size`: texts of a replica that run together.
  TextSpreader(const train::Groups& groups, std::int64_t batch_size)
      : groups_(groups), batch_size_(batch_size) {}

  /// Until pull() has no text. `pull`: not used on ranks other than 0. Collective over all ranks.
  void run(const Pull& pull, const Visit& visit) const;

 private:
  std::vector<NumberedText> pull_window(const Pull& pull) const;

  const train::Groups& groups_;
  const std::int64_t batch_size_;
};

}  // namespace tt::vectors
