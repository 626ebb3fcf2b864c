#include "src/trace/token_means.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "src/trace/captured.h"

namespace tt::trace {
namespace {

// The tokens of a row, which are neighbours.
Window window_of(MeanOver over, std::span<const bool> row) {
  const auto first = std::ranges::find(row, true) - row.begin();
  const auto end = std::find(row.begin() + first, row.end(), false) - row.begin();
  return over == MeanOver::kLastPrompt ? Window{std::max(first, end - 1), end} : Window{first, end};
}

}  // namespace

// Each column is summed by itself, so its sum does not depend on the columns of this rank.
at::Tensor token_means(MeanOver over, const at::Tensor& local, const PassText& text) {
  if (local.is_meta()) return local.narrow(1, 0, 1);
  const at::Tensor& mask = over == MeanOver::kResponse ? text.response : text.prompt;
  if (!mask.defined())
    throw std::runtime_error("this run does not know which tokens mean_over names");
  const at::NoGradGuard no_grad;
  const at::Tensor rows = mask.cpu().contiguous();
  const auto type = local.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  std::vector<at::Tensor> means;
  for (std::int64_t row = 0; row < local.size(0); ++row) {
    const auto size = static_cast<std::size_t>(rows.size(1));
    const Window tokens = window_of(over, {rows.const_data_ptr<bool>() + row * rows.size(1), size});
    if (tokens.size() == 0) {
      means.push_back(at::full({1, local.size(2)}, std::numeric_limits<double>::quiet_NaN(),
                               local.options().dtype(type)));
      continue;
    }
    const at::Tensor numbers = local[row].narrow(0, tokens.first, tokens.size());
    means.push_back(numbers.mean(-2, /*keepdim=*/true, at::kDouble).to(type));
  }
  return at::stack(means);
}

}  // namespace tt::trace
