#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/data/tokenizer.h"

namespace tt::data {

/// Limits of one prompt file; each limit has a test.
struct PromptLimits {
  std::size_t max_prompts = 256;
  std::size_t max_file_bytes = 16 << 20;
};

/// Limits of all prompt sets of a run; each limit has a test. Texts and tokens of the sets are part
/// of the run's facts, and the hub accepts at most 4 MiB of facts. The default plan has two entries
/// for each set, and a plan has at most 64 entries.
inline constexpr std::size_t kMaxPromptSets = 31;
inline constexpr std::size_t kMaxNumberedSets = 1024;                   // with the removed sets
inline constexpr std::size_t kMaxPromptTokens = std::size_t{1} << 18U;  // with the removed sets

struct Prompt {
  std::string text;
  std::vector<std::int64_t> tokens;

  bool operator==(const Prompt&) const = default;
  auto length() const { return static_cast<std::int64_t>(tokens.size()); }
};

/// Prompts that are monitored during a run.
struct PromptSet {
  std::string name;  // from a file: of the file, without folder and extension
  std::vector<Prompt> prompts;
  bool is_removed = false;  // no longer monitored; its number stays taken

  /// int64 [prompts, longest]: the tokens of each text, then zeros. Attention is causal, so the
  /// zeros after a text do not change its values.
  at::Tensor tokens() const;
  /// int64 [prompts, longest]: the next token of the text; -1 from the text's last token on.
  at::Tensor targets() const;
  /// bool [prompts, longest]: the token is one of the text.
  at::Tensor is_text() const;
  /// Number of tokens of the longest text and of the shortest text.
  std::int64_t longest() const;
  std::int64_t shortest() const;
};

/// Turns texts into prompts.
struct PromptReader {
  Tokenizer tokenize = bytes_of;
  std::int64_t seq_length = 1;  // the largest number of tokens of a prompt
  std::string where;            // the option or parameter that errors name
  PromptLimits limits = {};

  /// Error: no text, not UTF-8, too many tokens, or that of the tokenizer. Its message begins with
  /// `subject`.
  base::Result<Prompt> read(const std::string& text, const std::string& subject) const;
  /// Reads prompts from a file, one per line. In a .jsonl file each line is a JSON object with the
  /// text under "prompt" or "text", or a JSON string. Empty lines are ignored. Errors name the file
  /// and the line.
  base::Result<PromptSet> read_file(const std::string& path) const;
};

/// Checks the names of all sets of a run, and the limits above.
base::Status check_prompt_sets(const std::vector<PromptSet>& sets, const std::string& where);

/// "prompt_sets" of docs/protocol.md, "The run's facts". `interval`: steps from one pass to the
/// next.
nlohmann::json describe(const std::vector<PromptSet>& sets, std::int64_t interval);

/// The sets as JSON for other ranks, and back.
nlohmann::json to_json(const std::vector<PromptSet>& sets);
std::vector<PromptSet> prompt_sets_of(const nlohmann::json& sets);

}  // namespace tt::data
