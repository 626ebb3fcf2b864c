#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "src/attach/places.h"
#include "tensor_tracer/trace/intervention_pass.h"
#include "tensor_tracer/trace/pass.h"
#include "tensor_tracer/trace/plan.h"

namespace tt::trace {
class Tracer;
class InterventionHooks;
}  // namespace tt::trace

namespace tt::attach {

/// One forward pass of somebody else's model, or of the part of one pipeline stage, and its
/// backward pass. Several may be open at once. The hooks of the model's modules call it; `site` is
/// an index of Places::sites, of scope.stage. Thread: the thread that runs the step, and
/// the threads of its backward pass.
class Forward {
 public:
  /// `hooks` may be null. `text.tokens`: int64 [batch, sequence]; `has_text`: false if only their
  /// shape is known. Collective along the tensor axis.
  Forward(std::shared_ptr<const Places> places, trace::Tracer& tracer,
          trace::InterventionHooks* hooks, const trace::ForwardScope& scope,
          const trace::PassText& text, bool has_text);

  /// True if nothing wants this pass; then the model needs no hooks in it.
  bool is_idle() const { return !pass_.armed() && programs_ == nullptr; }
  /// The sites that the plan or a program wants in this pass.
  const std::vector<std::int64_t>& wanted() const { return wanted_; }
  /// True if a program may change the site's tensor.
  bool acts_at(std::int64_t site) const;
  /// Runs programs on the site's tensor, this rank's plain local tensor. Returns the tensor that
  /// the model must use. Collective along the tensor axis.
  at::Tensor apply(std::int64_t site, const at::Tensor& local);
  /// True if a program may act in this pass; then the model asks skips() before each layer.
  bool has_programs() const { return programs_ != nullptr; }
  /// True if programs skip this layer, from 1: its output is its input. Collective along the tensor
  /// axis.
  bool skips(std::int64_t layer) {
    return programs_ != nullptr && programs_->skips(static_cast<int>(layer));
  }
  /// Captures the site's value and watches its gradient. `local` holds the numbers of this rank.
  /// `output` is the tensor in the autograd graph: `local` itself, or a wrapper of it such as a
  /// DTensor.
  void capture(std::int64_t site, const at::Tensor& output, const at::Tensor& local);

  /// The number of first rows of the batch that entries need of a value that is computed only for
  /// capture.
  std::int64_t rows_wanted(std::int64_t site) const {
    return pass_.rows_wanted(site_at(site).place, batch_);
  }
  /// The part of such a value [batch, tokens, …] that entries need: rows, first token, end token.
  std::vector<std::int64_t> window(std::int64_t site) const;
  /// Captures a value that was computed only for capture, with the dims of its row and the first
  /// rows of the batch.
  void capture_made(std::int64_t site, const at::Tensor& value);

  /// Ends the model's forward. Collective along the tensor axis.
  void end_forward();
  /// Ends the backward, or a forward without a backward, and sends the records. Collective along
  /// the tensor axis.
  void end();

 private:
  void take_text(const trace::ForwardScope& scope, const trace::PassText& text);
  const Site& site_at(std::int64_t site) const {
    return places_->sites.at(static_cast<std::size_t>(site));
  }

  const std::shared_ptr<const Places> places_;
  const std::int64_t batch_, length_;  // rows and tokens
  trace::Pass pass_;
  std::unique_ptr<trace::InterventionPass> programs_;  // null: no program acts
  std::vector<std::int64_t> wanted_;
};

}  // namespace tt::attach
