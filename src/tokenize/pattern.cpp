#define PCRE2_CODE_UNIT_WIDTH 8
#include "src/tokenize/pattern.h"

#include <pcre2.h>

#include <array>

namespace tt::tokenize {
namespace {

constexpr std::uint32_t kMatchLimit = 10'000'000;
constexpr std::size_t kFirstStackBytes = std::size_t{64} << 10U;
constexpr std::size_t kMaxStackBytes = std::size_t{8} << 20U;

// The memory that a match needs; each thread has one.
class Matcher {
 public:
  Matcher() {
    pcre2_set_match_limit(context_.get(), kMatchLimit);
    pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
  }

  // The next match from `at` on, or a negative number: PCRE2_ERROR_….
  int find(const pcre2_code* code, std::string_view text, std::size_t at) {
    return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                       PCRE2_NO_UTF_CHECK, data_.get(), context_.get());
  }
  Range found() const {
    const auto* offsets = pcre2_get_ovector_pointer(data_.get());
    return {offsets[0], offsets[1]};
  }

 private:
  template <auto kFree>
  struct Free {
    template <typename T>
    void operator()(T* memory) const {
      kFree(memory);
    }
  };
  std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>> data_{
      pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>> context_{
      pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, Free<pcre2_jit_stack_free>> stack_{
      pcre2_jit_stack_create(kFirstStackBytes, kMaxStackBytes, nullptr)};
};

std::string text_of_error(int code) {
  std::array<PCRE2_UCHAR, 160> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

pcre2_code* compile(const std::string& expression, int& error, std::size_t& at) {
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  return pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                       PCRE2_UTF | PCRE2_UCP, &error, &at, context.get());
}

std::size_t next_character(std::string_view text, std::size_t at) {
  do ++at;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80);
  return at;
}

}  // namespace

void Pattern::Release::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

Pattern Pattern::literal(std::string text) {
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

base::Result<Pattern> Pattern::expression(const std::string& expression) {
  const auto translated = to_pcre2(expression);
  if (!translated) return translated.error();
  int error = 0;
  std::size_t at = 0;
  Pattern pattern;
  pattern.code_.reset(compile(translated.value(), error, at));
  if (pattern.code_ == nullptr) {
    return base::invalid_argument({}, "regular expression \"" + expression + "\", byte " +
                                          std::to_string(at) + ": " + text_of_error(error));
  }
  pcre2_jit_compile(pattern.code_.get(), PCRE2_JIT_COMPLETE);  // without it, only slower
  return pattern;
}

Pattern Pattern::read(const JsonField& field) {
  if (!field["String"].is_null()) return literal(field["String"].text());
  auto pattern = expression(field["Regex"].text());
  if (pattern) return std::move(pattern).value();
  field["Regex"].refuse(pattern.error().message);
  return literal({});
}

base::Status Pattern::find_all(std::string_view text, std::vector<Range>& matches) const {
  matches.clear();
  if (code_ != nullptr) return find_expression(text, matches);
  if (literal_.empty()) return {};
  for (std::size_t at = text.find(literal_); at != std::string_view::npos;
       at = text.find(literal_, at + literal_.size()))
    matches.push_back({at, at + literal_.size()});
  return {};
}

base::Status Pattern::find_expression(std::string_view text, std::vector<Range>& matches) const {
  thread_local Matcher matcher;
  std::size_t at = 0;
  while (at <= text.size()) {
    const int count = matcher.find(code_.get(), text, at);
    if (count == PCRE2_ERROR_NOMATCH) return {};
    if (count < 0) {
      return base::Error{
          .code = "invalid_argument",
          .message = "a regular expression cannot split this text: " + text_of_error(count)};
    }
    const Range found = matcher.found();
    const bool repeats = found.begin == found.end && !matches.empty() &&
                         matches.back().end == found.end;  // an empty match right after a match
    if (!repeats) matches.push_back(found);
    at = repeats ? next_character(text, at) : found.end;
  }
  return {};
}

}  // namespace tt::tokenize
