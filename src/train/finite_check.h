#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/nn/parameter.h"
#include "tensor_tracer/points/place_table.h"
#include "tensor_tracer/trace/intervention_pass.h"

namespace tt::train {

/// Looks for the first number that is not finite: in every place of a forward, then in the
/// gradients of these places in the order of the backward, then in the gradients of parameters. It
/// changes nothing. Several forwards may use it one after another. It outlives their backwards.
/// Thread: the thread that runs the step.
class FiniteCheck : public trace::InterventionPass {
 public:
  explicit FiniteCheck(std::shared_ptr<const points::PlaceTable> places);

  /// Looks at the values after the changes of `programs`, which may be null and outlives the
  /// forward. Returns this object.
  trace::InterventionPass* after(trace::InterventionPass* programs);

  at::Tensor at_point(const points::PlaceKey& place, const at::Tensor& local) override;
  bool reads(const points::PlaceKey& place) const override {
    return programs_ != nullptr && programs_->reads(place);
  }
  bool writes(const points::PlaceKey& place) const override {
    return programs_ != nullptr && programs_->writes(place);
  }
  bool skips(int layer) override { return programs_ != nullptr && programs_->skips(layer); }
  void end() override {}  // the owner of the programs ends them

  /// Looks at this rank's gradients, before they are summed over ranks.
  void look_at_gradients(const std::vector<nn::Parameter>& parameters);

  /// Looks at this rank's weights.
  void look_at_weights(const std::vector<nn::Parameter>& parameters);

  /// The first finding of all ranks: "layers[3].mlp.fc1 on rank 2", or "the gradient of …";
  /// nullopt: all values of all ranks are finite. Collective over `world`.
  std::optional<std::string> first_finding(const comm::ProcessGroup& world) const;

 private:
  void look(const at::Tensor& values, const std::function<std::string()>& name);

  const std::shared_ptr<const points::PlaceTable> places_;
  std::unique_ptr<bool[]> acts_everywhere_;
  trace::InterventionPass* programs_ = nullptr;  // null: none
  std::int64_t calls_ = 0;                       // of look()
  std::int64_t found_at_;                        // the call
  std::string found_;
};

}  // namespace tt::train
