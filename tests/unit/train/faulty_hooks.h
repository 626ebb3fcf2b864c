#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <array>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/trace/intervention_hooks.h"

namespace tt::train {

/// A value that is not finite.
struct Fault {
  std::int64_t step = 0;
  points::PlaceKey place;
  bool is_gradient = false;
  bool is_persistent = false;
  bool stays = false;  // in the memory of a weight
};

/// Makes one place NaN, or its gradient, or damages the weight at this place.
class NanAtPlace : public trace::InterventionPass {
 public:
  explicit NanAtPlace(const Fault& fault) : is_gradient_(fault.is_gradient), stays_(fault.stays) {
    places_.at(fault.place.index) = true;
    acts_ = places_.data();
  }
  at::Tensor at_point(const points::PlaceKey&, const at::Tensor& local) override {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    if (stays_) {
      const at::NoGradGuard no_grad;
      local.view(-1)[7].fill_(kNan);
      return local;
    }
    if (!is_gradient_) return local * kNan;
    local.register_hook([](const at::Tensor& gradient) { return gradient * kNan; });
    return local;
  }
  bool reads(const points::PlaceKey&) const override { return false; }
  bool writes(const points::PlaceKey&) const override { return false; }
  bool skips(int) override { return false; }
  void end() override {}

 private:
  const bool is_gradient_, stays_;
  std::array<bool, 1024> places_ = {};  // more than the tiny model has
};

/// Injects the fault in every forward of the step, or in the first one only.
class FaultyHooks : public trace::InterventionHooks {
 public:
  explicit FaultyHooks(std::optional<Fault> fault) : fault_(fault) {}
  void use_modules(trace::ModuleCalls) override {}
  bool is_due(const trace::ForwardScope&) const override { return fault_.has_value(); }
  std::unique_ptr<trace::InterventionPass> begin(const trace::ForwardScope& scope,
                                                 const trace::ProgramTokens&) override {
    if (!fault_ || scope.phase != trace::Phase::kTrain || scope.step != fault_->step)
      return nullptr;
    if (forwards_++ > 0 && !fault_->is_persistent) return nullptr;
    return std::make_unique<NanAtPlace>(*fault_);
  }
  base::Result<nlohmann::json> request(const protocol::ProgramRequest&, std::int64_t) override {
    return nlohmann::json();
  }
  bool has_changes() const override { return false; }
  trace::ProgramChanges take_changes(std::int64_t) override { return {}; }
  base::Status prepare(const trace::ProgramChanges&) override { return {}; }
  void install(bool) override {}
  bool give_up() override { return false; }
  nlohmann::json describe(std::int64_t) const override {
    return {{"programs", nlohmann::json::array()}};
  }
  std::optional<nlohmann::json> report(std::int64_t) override { return {}; }
  std::vector<nlohmann::json> take_saved() override { return {}; }
  base::Result<trace::FileContents> read_files(const nlohmann::json&) override {
    return trace::FileContents{};
  }
  base::Status begin_preview(const nlohmann::json&, const trace::FileContents&,
                             trace::Phase) override {
    return {};
  }
  void turn_preview(bool) override {}
  bool preview_writes_gradients() const override { return false; }
  nlohmann::json preview_writes() override { return {}; }
  std::string preview_misfit() const override { return ""; }
  void end_preview() override {}
  bool begin_prompt() override { return false; }
  nlohmann::json end_prompt() override { return {}; }

 private:
  const std::optional<Fault> fault_;
  int forwards_ = 0;
};

}  // namespace tt::train
