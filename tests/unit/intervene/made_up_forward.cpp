#include "tests/unit/intervene/made_up_forward.h"

#include <ATen/ATen.h>

#include <cstring>
#include <stdexcept>
#include <vector>

#include "tensor_tracer/comm/shards.h"
#include "tensor_tracer/comm/world.h"
#include "tensor_tracer/intervene/engine.h"
#include "tensor_tracer/model/gpt.h"
#include "tests/unit/comm/counting_group.h"

namespace tt::intervene {
namespace {

constexpr int kLayers = 3;
constexpr std::int64_t kBatch = 4;
constexpr std::int64_t kSequence = 5;
constexpr std::int64_t kHidden = 64;

at::Tensor random(const std::vector<std::int64_t>& shape, std::uint64_t seed) {
  return at::empty(shape, at::kDouble).normal_(0.0, 1.0, at::detail::createCPUGenerator(seed));
}

class Vectors : public trace::VectorLibrary {
 public:
  std::vector<std::string> names() override { return {"evil"}; }
  base::Result<std::shared_ptr<const trace::DirectionVector>> find(
      const std::string& name) override {
    auto vector = std::make_shared<trace::DirectionVector>();
    vector->name = name;
    vector->hidden_size = kHidden;
    vector->has_embedding_row = true;
    const at::Tensor rows = random({(kLayers + 1) * kHidden}, 1).to(at::kFloat);
    const auto* first = rows.const_data_ptr<float>();
    vector->rows.assign(first, first + rows.numel());
    return std::shared_ptr<const trace::DirectionVector>(vector);
  }
};

class Files : public trace::TensorFiles {
 public:
  base::Result<at::Tensor> find(const std::string&, const std::string&) override {
    return random({kSequence, kHidden}, 2);
  }
};

config::ModelConfig model_of(std::int64_t query_groups) {
  config::ModelConfig model;
  model.num_layers = kLayers;
  model.hidden_size = kHidden;
  model.num_attention_heads = 8;
  model.num_query_groups = query_groups;
  model.ffn_hidden_size = 168;
  model.seq_length = kSequence;
  model.vocab_size = 37;
  model.swiglu = true;
  return model;
}

/// One place of the model, made up.
struct Made {
  std::string name;
  points::PlaceKey key;
  std::vector<std::int64_t> shape;
  mesh::Placement placement;
  bool is_read_only = false;
};

Made made_up(const points::PlaceTable& places, std::size_t row, int layer) {
  const points::Place& place = places.rows()[row];
  Made made{place.name + (layer > 0 ? " " + std::to_string(layer) : ""), places.key(row, layer),
            place.shape, place.placement, !place.writable};
  if (!place.is_weight) made.shape = {kBatch, kSequence, place.features};
  if (place.dims.size() == 4) made.shape = {kBatch, 8, kSequence, kSequence};
  return made;
}

std::vector<Made> all_places(const points::PlaceTable& places) {
  std::vector<Made> all;
  for (int layer = 0; layer <= kLayers + 1; ++layer) {
    const bool is_inside = layer > 0 && layer <= kLayers;
    for (std::size_t row = 0; row < places.rows().size(); ++row) {
      const points::Place& place = places.rows()[row];
      if (place.in_layers() != is_inside || place.holds_integers()) continue;
      const bool is_behind = row > places.layer_output();
      if (is_inside || is_behind == (layer > 0))
        all.push_back(made_up(places, row, is_inside ? layer : 0));
    }
  }
  return all;
}

/// One rank's pass.
class Pass {
 public:
  Pass(const comm::ProcessGroup& group, const Context& context, const std::string& program)
      : group_(group),
        context_(context),
        reads_the_pass_before_(program.find("saved(") != std::string::npos),
        traffic_(std::make_shared<comm::Traffic>()),
        engine_(make_engine(context, comm::make_counting(group, traffic_), group)) {
    if (program.empty()) return;
    const auto answer =
        engine_->request(protocol::ApplyProgram{.name = "p", .program = program}, 1);
    if (!answer) throw std::runtime_error(program + "\n" + to_string(answer.error()));
    if (!engine_->prepare(engine_->take_changes(1))) throw std::runtime_error("not prepared");
    engine_->install(true);
  }

  MadeUp run() {
    if (reads_the_pass_before_) pass();
    pass();
    made_["messages"] = at::full({}, traffic_->messages(), at::kLong);
    for (const auto& [name, leaf] : leaves_) {
      const at::Tensor gradient =
          leaf.first.grad().defined() ? leaf.first.grad() : at::zeros_like(leaf.first);
      made_[name + ".grad"] = whole(gradient, gradient_placement(leaf.second));
    }
    const auto report = engine_->report(3);
    const std::int64_t positions =
        report ? (*report)["programs"][0]["positions"].get<std::int64_t>() : 0;
    made_["positions"] = at::full({}, positions, at::kLong);
    return std::move(made_);
  }

 private:
  void pass() {
    const at::Tensor tokens = at::arange(kBatch * kSequence, at::kLong).view({kBatch, kSequence});
    const auto acting = engine_->begin({3, 0, 0, trace::Phase::kTrain}, tokens);
    at::Tensor loss = at::zeros({}, at::kDouble);
    std::uint64_t seed = 100;
    for (const Made& place : all_places(context_.places()))
      loss = loss + meet(place, seed += 2, acting.get());
    loss.backward();
    if (acting != nullptr) acting->end();
  }

  bool is_cut(const mesh::Placement& placement) const {
    return placement.kind == mesh::Placement::Kind::kShard;
  }
  at::Tensor part(const at::Tensor& full, const mesh::Placement& placement) const {
    if (!is_cut(placement)) return full;
    return comm::take_shard(full, placement, group_.rank(), group_.size());
  }
  at::Tensor whole(const at::Tensor& local, const mesh::Placement& placement) const {
    return is_cut(placement) ? comm::all_gather_full(local, placement, group_) : local.clone();
  }
  // Several ranks hold partial sums of the gradient of what they hold copies of.
  mesh::Placement gradient_placement(mesh::Placement placement) const {
    for (mesh::Segment& one : placement.segments) one.partial = one.chunks < group_.size();
    return placement;
  }

  at::Tensor meet(const Made& place, std::uint64_t seed, trace::InterventionPass* acting) {
    if (place.is_read_only && !(acting != nullptr && acting->reads(place.key)))
      return at::zeros({}, at::kDouble);
    const at::Tensor leaf = part(random(place.shape, seed).to(context_.dtype), place.placement)
                                .contiguous()
                                .requires_grad_(true);
    const at::Tensor x = leaf * 1;
    const bool is_met = acting != nullptr && acting->acts_at(place.key);
    const at::Tensor y = is_met ? acting->at_point(place.key, x) : x;
    if (place.is_read_only) return at::zeros({}, at::kDouble);
    leaves_[place.name] = {leaf, place.placement};
    made_[place.name] = whole(y.detach(), place.placement);
    // Of copies the owner's counts.
    at::Tensor weight = part(random(place.shape, seed + 1), place.placement);
    if (is_cut(place.placement)) {
      for (const auto& at :
           mesh::intervals_of_rank(place.placement, group_.rank(), group_.size())) {
        if (at.owner == group_.rank()) continue;
        weight.narrow(place.placement.dim, at.local_begin, at.end - at.begin).zero_();
      }
    }
    return (y.to(at::kDouble) * weight).sum();
  }

  const comm::ProcessGroup& group_;
  const Context context_;
  const bool reads_the_pass_before_;
  const std::shared_ptr<comm::Traffic> traffic_;
  const std::unique_ptr<trace::InterventionHooks> engine_;
  MadeUp made_;
  std::map<std::string, std::pair<at::Tensor, mesh::Placement>> leaves_;
};

}  // namespace

Context made_up_context(std::int64_t query_groups, const comm::ProcessGroup& group,
                        at::ScalarType dtype) {
  const config::ModelConfig model = model_of(query_groups);
  static Vectors vectors;
  static Files files;
  Context context;
  context.model.places = model::describe_model(model, group.size()).places();
  context.vectors = &vectors;
  context.files = &files;
  context.tensor_ranks = group.size();
  context.tensor_rank = group.rank();
  context.micro_batch_size = kBatch;
  context.seq_length = kSequence;
  context.head_size = model.head_size();
  context.dtype = dtype;
  context.seed = 7;
  return context;
}

points::PlaceKey hidden_states(int layer) {
  static const Context context = made_up_context(8, comm::ProcessGroup(), at::kFloat);
  return context.places().key("HiddenStates", layer);
}

MadeUp forward_and_backward(int ranks, std::int64_t query_groups, const std::string& program,
                            at::ScalarType dtype) {
  MadeUp made;
  comm::run_local(ranks, [&](const comm::ProcessGroup& group) {
    const Context context = made_up_context(query_groups, group, dtype);
    MadeUp own = Pass(group, context, program).run();
    if (group.rank() == 0) made = std::move(own);
  });
  return made;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor left = a.contiguous();
  const at::Tensor right = b.contiguous();
  return left.nbytes() == right.nbytes() &&
         std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
}

}  // namespace tt::intervene
