#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tensor_tracer/data/token_source.h"

namespace tt::data {

/// One row of a batch; each span has seq_length entries. For samples that are plain, `starts` and
/// `counted` may be empty.
struct Row {
  std::span<std::int64_t> tokens;
  std::span<std::int64_t> labels;  // the next token of the document; -1 after the last
  std::span<std::int64_t> starts;  // index in the row of the first token of the token's document
  std::span<bool> counted;         // the loss of the label counts
};

/// A dataset, divided into rows of seq_length tokens. Immutable. Thread: any.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  /// Number of samples.
  virtual std::int64_t size() const = 0;
  virtual std::int64_t num_tokens() const = 0;
  /// True: each row is one sequence without padding, and all its labels count.
  virtual bool is_plain() const = 0;
  /// Writes the sample into `row`.
  virtual void read(std::int64_t sample, const Row& row) const = 0;
  /// Number of labels of the sample that count.
  virtual std::int64_t num_counted(std::int64_t sample) const = 0;
  /// Entropy of single tokens in nats.
  virtual double unigram_entropy() const = 0;
};

/// Sample i covers tokens [i * seq_length, (i + 1) * seq_length + 1) of a text.
class StreamSamples : public SampleSource {
 public:
  StreamSamples(std::shared_ptr<const TokenSource> tokens, std::int64_t seq_length)
      : tokens_(std::move(tokens)), seq_length_(seq_length) {}
  std::int64_t size() const override { return (tokens_->size() - 1) / seq_length_; }
  std::int64_t num_tokens() const override { return tokens_->size(); }
  bool is_plain() const override { return !tokens_->has_mask(); }
  void read(std::int64_t sample, const Row& row) const override;
  std::int64_t num_counted(std::int64_t sample) const override;
  double unigram_entropy() const override { return tokens_->unigram_entropy(); }

 private:
  std::shared_ptr<const TokenSource> tokens_;
  const std::int64_t seq_length_;
};

/// A dataset of a run, and the share of the samples that it gives.
struct BlendPart {
  std::unique_ptr<const SampleSource> samples;
  double weight = 1.0;  // above 0; the weights need not sum to 1
};
using Blend = std::vector<BlendPart>;

}  // namespace tt::data
