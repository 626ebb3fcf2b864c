#include "src/attach/forward.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "tensor_tracer/trace/intervention_hooks.h"
#include "tensor_tracer/trace/tracer.h"

namespace tt::attach {
namespace {

bool is_wrapper(const at::Tensor& tensor) { return tensor.key_set().has(c10::DispatchKey::Python); }

// The Python side defines this operator for the wrappers that it knows.
at::Tensor to_local(const at::Tensor& tensor) {
  if (!is_wrapper(tensor)) return tensor;
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("tensor_tracer::to_local", "")
                             .typed<at::Tensor(const at::Tensor&)>();
  return op.call(tensor);
}

at::Tensor ids_and_positions(const at::Tensor& tokens) {
  return at::stack({tokens, at::arange(tokens.size(1), tokens.options()).expand_as(tokens)});
}

// The token that follows each one in its row; -1 after the last one.
at::Tensor next_tokens(const at::Tensor& tokens) {
  return at::constant_pad_nd(tokens.narrow(1, 1, tokens.size(1) - 1), {0, 1}, -1);
}

}  // namespace

Forward::Forward(std::shared_ptr<const Places> places, trace::Tracer& tracer,
                 trace::InterventionHooks* hooks, const trace::ForwardScope& scope,
                 const trace::PassText& text, bool has_text)
    : places_(std::move(places)),
      batch_(text.tokens.size(0)),
      length_(text.tokens.size(1)),
      pass_(tracer.begin(scope)) {
  if (hooks != nullptr) programs_ = hooks->begin(scope, text.tokens);
  if (is_idle()) return;
  if (has_text) take_text(scope, text);
  for (std::size_t site = 0; site < places_->sites.size(); ++site) {
    const auto& [place, view, stage] = places_->sites[site];
    if (stage != scope.stage || (places_->tokens && place.index == places_->tokens->index))
      continue;
    if ((pass_.armed() && tracer.wants(place, scope)) ||
        (programs_ != nullptr && programs_->acts_at(place)))
      wanted_.push_back(static_cast<std::int64_t>(site));
  }
}

// The first stage alone records the tokens. Targets have to be in the host's memory, and a copy
// from the device would make the host wait.
void Forward::take_text(const trace::ForwardScope& scope, const trace::PassText& text) {
  const bool has_targets = text.targets.defined() || !text.tokens.is_cpu();
  trace::PassText known = text;
  if (!has_targets) known.targets = next_tokens(text.tokens);
  pass_.set_text(known);
  if (!places_->tokens) return;
  const at::Tensor row = ids_and_positions(text.tokens);
  if (programs_ != nullptr && programs_->acts_at(*places_->tokens))
    programs_->at_point(*places_->tokens, row);
  if (scope.stage == 0) pass_.capture(*places_->tokens, row);
}

bool Forward::acts_at(std::int64_t site) const {
  return programs_ != nullptr && programs_->acts_at(site_at(site).place);
}

at::Tensor Forward::apply(std::int64_t site, const at::Tensor& local) {
  if (!acts_at(site)) return local;
  const Site& at = site_at(site);
  const at::Tensor row = as_row(local, at.view, batch_);
  const at::Tensor changed = programs_->at_point(at.place, row);
  return changed.is_same(row) ? local : as_module(changed, at.view, local);
}

void Forward::capture(std::int64_t site, const at::Tensor& output, const at::Tensor& local) {
  if (!pass_.armed()) return;
  const Site& at = site_at(site);
  if (at.view == View::kSame && output.is_same(local)) {
    pass_.capture(at.place, local);
    return;
  }
  const at::Tensor row = as_row(local.detach(), at.view, batch_);
  if (pass_.rows_wanted(at.place, batch_) > 0)
    pass_.capture_derived(at.place, row.sizes(), row.scalar_type(), [&row] { return row; });
  if (pass_.rows_wanted(at.place, batch_, /*gradient=*/true) > 0) {
    pass_.capture_derived_gradient(
        at.place, {.sizes = row.sizes().vec(),
                   .dtype = row.scalar_type(),
                   .from = output,
                   .make =
                       [view = at.view, batch = batch_](const at::Tensor& gradient) {
                         return as_row(to_local(gradient), view, batch);
                       }});
  }
}

std::vector<std::int64_t> Forward::window(std::int64_t site) const {
  const trace::TokenWindow wanted = pass_.wanted(site_at(site).place, batch_, length_);
  return {wanted.rows, wanted.first_token, wanted.end_token};
}

void Forward::capture_made(std::int64_t site, const at::Tensor& value) {
  pass_.capture_derived(
      site_at(site).place, value.sizes(), value.scalar_type(), [&value] { return value; });
}

void Forward::end_forward() { pass_.end_forward(); }

void Forward::end() {
  pass_.end_forward();
  pass_.end_backward();
  pass_.finish();
  if (programs_ != nullptr) programs_->end();
}

}  // namespace tt::attach
