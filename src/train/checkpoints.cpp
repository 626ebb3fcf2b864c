#include "tensor_tracer/train/checkpoints.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <utility>

#include "tensor_tracer/comm/collectives.h"

namespace tt::train {
namespace {

using checkpoint::FileContents;
using nlohmann::json;

/// A tensor of the state, with the placement and the whole shape of its parameter.
struct StateTensor {
  std::string name;
  at::Tensor local;
  mesh::Placement placement;
  std::vector<std::int64_t> full_shape;
  bool is_trained = true;  // false: it never changes, so no save copies it
};

std::string name_of_main(const nn::Parameter& parameter) {
  return "optimizer.main." + parameter.name;
}

std::vector<StateTensor> weights_of(const std::vector<nn::Parameter>& parameters) {
  std::vector<StateTensor> tensors;
  for (const nn::Parameter& one : parameters)
    tensors.push_back({one.name, one.value(), one.placement, one.full_shape, one.is_trained});
  return tensors;
}

std::vector<StateTensor> main_weights_of(const std::vector<nn::Parameter>& parameters) {
  std::vector<StateTensor> tensors;
  for (const nn::Parameter& one : parameters)
    if (one.rounded.defined())
      tensors.push_back({name_of_main(one), one.local.detach(), one.placement, one.full_shape});
  return tensors;
}

// The leaves of the parameters. Their numbers are the main weights of a store that has them.
std::vector<StateTensor> leaves_of(const std::vector<nn::Parameter>& parameters,
                                   const checkpoint::TensorStore& store) {
  std::vector<StateTensor> tensors;
  for (const nn::Parameter& one : parameters) {
    const std::string main = name_of_main(one);
    tensors.push_back({store.shape_of(main) ? main : one.name, one.local.detach(), one.placement,
                       one.full_shape});
  }
  return tensors;
}

// With the names of torch.optim.AdamW.
std::vector<StateTensor> moments_of(const TrainState& state) {
  std::vector<StateTensor> tensors;
  for (std::size_t i = 0; i < state.trained.size(); ++i) {
    const nn::Parameter& one = state.trained[i];
    const optim::AdamW::Moments moments = state.optimizer.moments(i);
    tensors.push_back(
        {"optimizer.exp_avg." + one.name, moments.first, one.placement, one.full_shape});
    tensors.push_back(
        {"optimizer.exp_avg_sq." + one.name, moments.second, one.placement, one.full_shape});
    tensors.push_back(
        {"optimizer.step." + one.name, moments.updates, mesh::Placement::replicate(), {}});
  }
  return tensors;
}

/// A part of a tensor that this rank writes. A file may hold one part of a tensor, so the parts of
/// a fused tensor are in different files.
struct Part {
  at::Tensor tensor;
  std::vector<std::int64_t> offsets;
};

std::vector<Part> parts_of(const StateTensor& of, const comm::ProcessGroup& tensor) {
  std::vector<std::int64_t> offsets(of.full_shape.size(), 0);
  if (!of.placement.is_sharded())
    return tensor.rank() == 0 ? std::vector<Part>{{of.local, offsets}} : std::vector<Part>{};
  std::vector<Part> parts;
  for (const auto& interval : mesh::intervals_of_rank(of.placement, tensor.rank(), tensor.size())) {
    if (interval.owner != tensor.rank()) continue;
    offsets[static_cast<std::size_t>(of.placement.dim)] = interval.begin;
    parts.push_back(
        {of.local.narrow(of.placement.dim, interval.local_begin, interval.end - interval.begin),
         offsets});
  }
  return parts;
}

// The k-th file holds the k-th part of each tensor.
void add_files(const char* kind, const std::vector<StateTensor>& tensors,
               const comm::ProcessGroup& tensor, std::vector<FileContents>& files) {
  std::vector<FileContents> added;
  std::vector<json> sharding;
  for (const StateTensor& one : tensors) {
    const std::vector<Part> parts = parts_of(one, tensor);
    for (std::size_t k = 0; k < parts.size(); ++k) {
      if (k == added.size()) {
        added.push_back({fmt::format("{}-{:05d}-{}.safetensors", kind, tensor.rank(), k), {}, {}});
        sharding.push_back(json::object());
      }
      sharding[k][one.name] = {{"saved_offsets", parts[k].offsets}};
      const at::Tensor& part = parts[k].tensor;
      added[k].tensors.push_back(
          {one.name, one.is_trained ? part.clone(at::MemoryFormat::Contiguous) : part});
    }
  }
  for (std::size_t k = 0; k < added.size(); ++k) {
    added[k].metadata = {
        {"format", "pt"}, {"DCP_VERSION", "1.0"}, {"DCP_SHARDING_INFO", sharding[k].dump()}};
    files.push_back(std::move(added[k]));
  }
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

base::Status read(const checkpoint::TensorStore& store, const std::vector<StateTensor>& tensors,
                  const comm::ProcessGroup& tensor) {
  const at::NoGradGuard no_grad;
  for (const StateTensor& one : tensors) {
    at::Tensor local = one.local;
    auto status = store.read_shard(one.name, one.full_shape, one.placement, tensor.rank(),
                                   tensor.size(), local);
    if (!status) return status;
  }
  return {};
}

}  // namespace

base::Status load_weights(const checkpoint::TensorStore& store,
                          const std::vector<nn::Parameter>& parameters,
                          const comm::ProcessGroup& tensor) {
  return read(store, leaves_of(parameters, store), tensor);
}

base::Status load_state(const checkpoint::TensorStore& store, const TrainState& state,
                        const comm::ProcessGroup& tensor) {
  auto status = load_weights(store, state.parameters, tensor);
  return status ? read(store, moments_of(state), tensor) : status;
}

Checkpoints::Checkpoints(const config::CheckpointConfig& config, const Groups& groups,
                         TrainState state, OnSaved on_saved)
    : groups_(groups),
      state_(state),
      on_saved_(std::move(on_saved)),
      writer_(config.save, groups.world.rank(), groups.world.size(),
              {config.keep_last, config.keep_best}) {}

// Data replica 0 holds the whole model.
std::vector<FileContents> Checkpoints::copy_state() const {
  const at::NoGradGuard no_grad;
  std::vector<FileContents> files;
  if (groups_.coordinates.data != 0) return files;
  add_files("model", weights_of(state_.parameters), groups_.tensor, files);
  std::vector<StateTensor> optimizer = main_weights_of(state_.trained);
  std::ranges::move(moments_of(state_), std::back_inserter(optimizer));
  add_files("optimizer", optimizer, groups_.tensor, files);
  return files;
}

void Checkpoints::save(std::int64_t step, json facts, std::optional<double> valid_loss) {
  wait_for_save();
  const comm::SoloWork work(groups_.world, "begins a checkpoint");
  last_step_ = step;
  const bool is_first = groups_.world.rank() == 0;
  std::string hidden;
  if (is_first) {
    auto made = writer_.prepare(step);
    if (made)
      hidden = std::move(made).value();
    else if (on_saved_)
      on_saved_(made.error());
  }
  comm::broadcast_text(groups_.world, hidden, 0);
  has_failed_ = hidden.empty();
  if (has_failed_) return;
  writer_.start(std::move(hidden), copy_state(), {step, now(), {}, std::move(facts), valid_loss});
}

void Checkpoints::poll() {
  if (writer_.has_ended()) report();
}

void Checkpoints::report() {
  if (!writer_.is_open()) return;
  const auto saved = writer_.wait();
  has_failed_ = !saved.ok();
  if (groups_.world.rank() == 0 && on_saved_) on_saved_(saved);
}

// Rank 0 waits for lists of the other ranks; a rank that failed may have left none.
void Checkpoints::wait_for_save() {
  const comm::SoloWork work(groups_.world, "waits for the files of a checkpoint");
  const bool is_first = groups_.world.rank() == 0;
  if (!is_first) report();
  if (!comm::all_of(groups_.world, is_first || !has_failed_)) writer_.give_up();
  if (is_first) report();
}

bool Checkpoints::finish() {
  wait_for_save();
  return comm::all_of(groups_.world, !has_failed_);
}

}  // namespace tt::train
