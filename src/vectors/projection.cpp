#include "tensor_tracer/vectors/projection.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "tensor_tracer/vectors/kinds.h"
#include "tensor_tracer/vectors/state_reader.h"

namespace tt::vectors {

std::vector<double> project_responses(const model::Gpt& model, const train::Groups& groups,
                                      data::PromptedTexts* texts, std::int64_t size,
                                      const at::Tensor& direction_H,
                                      const ProjectionOptions& options,
                                      const std::function<void()>& on_text) {
  const bool keeps = groups.coordinates.tensor == 0;
  const StateReader reader(model, options.includes_first_token, keeps);
  const at::Tensor unit_H = direction_H / at::linalg_vector_norm(direction_H);
  at::Tensor projections_N = at::zeros({size}, unit_H.options());
  std::int64_t next = 0;
  const auto pull = [&]() -> std::optional<NumberedText> {
    if (next == size) return std::nullopt;
    on_text();
    return NumberedText{next++, next_text(*texts, options.most_tokens)};
  };
  TextSpreader(groups, options.batch_size).run(pull, [&](std::vector<NumberedText> own) {
    if (own.empty()) return;
    if (options.change) options.change(own);
    std::vector<const data::PromptedText*> batch;
    for (const NumberedText& one : own) batch.push_back(&one.text);
    const StateMeans means = reader.read(batch);
    if (!keeps) return;
    const at::Tensor found_B =
        at::mv(means.states.select(1, kResponse).select(1, options.row), unit_H);
    if (!at::isfinite(found_B).all().item<bool>())
      throw std::runtime_error("the hidden states of row " + std::to_string(options.row) +
                               " are not finite");
    found_B.masked_fill_(means.counts.select(1, kResponse).eq(0),
                         std::numeric_limits<double>::quiet_NaN());
    for (std::size_t i = 0; i < own.size(); ++i)
      projections_N[own[i].number].copy_(found_B[static_cast<std::int64_t>(i)]);
  });
  if (keeps) groups.data.all_reduce(projections_N);
  const auto* const first = projections_N.const_data_ptr<double>();
  return {first, first + size};
}

}  // namespace tt::vectors
