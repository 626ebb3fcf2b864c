#include "src/trace/kept_tokens.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace tt::trace {

void KeptTokens::insert(std::vector<Token>& best, Token token) const {
  const auto same = std::ranges::find(best, token.ids, &Token::ids);
  if (same != best.end()) {
    if (same->value >= token.value) return;
    best.erase(same);
  }
  const auto behind =
      std::ranges::upper_bound(best, token.value, std::ranges::greater(), &Token::value);
  best.insert(behind, std::move(token));
  if (std::ssize(best) > form_.k) best.pop_back();
}

void KeptTokens::add(const UnitNumbers& numbers, const ForwardScope& scope, const at::Tensor& ids) {
  const double* value = numbers.values;
  for (std::int64_t row = 0; row < numbers.rows; ++row) {
    const at::Tensor line = ids[numbers.first_row + row];
    const auto id = line.accessor<std::int64_t, 1>();
    for (std::int64_t token = 0; token < numbers.tokens; ++token) {
      for (std::vector<Token>& best : best_) {
        const double number = *value++;
        const bool is_full = std::ssize(best) == form_.k;
        if (std::isnan(number) || (is_full && number <= best.back().value)) continue;
        Token found{number, scope.step, scope.first_row + numbers.first_row + row,
                    numbers.first_token + token};
        for (std::int64_t i = 0; i < std::ssize(found.ids); ++i) {
          const std::int64_t at = found.position + i - KeptForm::kContext;
          found.ids[static_cast<std::size_t>(i)] = at >= 0 && at < line.size(0) ? id[at] : -1;
        }
        insert(best, std::move(found));
      }
    }
  }
}

void KeptTokens::write(double* out) const {
  for (const std::vector<Token>& best : best_) {
    for (std::int64_t place = 0; place < form_.k; ++place) {
      const bool is_there = place < std::ssize(best);
      const Token* token = is_there ? &best[static_cast<std::size_t>(place)] : nullptr;
      *out++ = is_there ? token->value : std::numeric_limits<double>::quiet_NaN();
      *out++ = is_there ? static_cast<double>(token->step) : -1;
      *out++ = is_there ? static_cast<double>(token->row) : -1;
      *out++ = is_there ? static_cast<double>(token->position) : -1;
      for (std::size_t i = 0; i < Token().ids.size(); ++i)
        *out++ = is_there ? static_cast<double>(token->ids[i]) : -1;
    }
  }
}

}  // namespace tt::trace
