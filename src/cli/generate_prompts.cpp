#include "src/cli/generate_prompts.h"

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>

#include "tensor_tracer/base/byte_order_mark.h"
#include "tensor_tracer/base/private_file.h"

namespace tt::cli {
namespace {

using nlohmann::json;

// Reads one prompt after another; `where` is the option that gave it.
class GeneratePrompts {
 public:
  GeneratePrompts(const RunTokenizer& tokenizer, std::int64_t vocab_size)
      : tokenize_(tokenizer.for_prompts()), vocab_size_(vocab_size) {}

  base::Status add_text(const std::string& text, const char* where, const std::string& subject) {
    const data::PromptReader reader{.tokenize = tokenize_,
                                    .seq_length = std::numeric_limits<std::int64_t>::max(),
                                    .where = where};
    auto prompt = reader.read(text, subject);
    if (!prompt) return prompt.error();
    prompts_.push_back(std::move(prompt).value());
    return {};
  }

  base::Status add_json(const std::string& line, const std::string& subject) {
    const json value = json::parse(line, nullptr, false);
    const auto wrong = [&](const std::string& message, const std::string& remedy) {
      return base::invalid_argument("--prompts", subject + " " + message, remedy);
    };
    if (!value.is_object())
      return wrong("is not a JSON object", R"(write {"prompt": "a text"} on each line)");
    if (value.contains("messages")) {
      return wrong("has messages of a chat",
                   "render them with the chat template of the tokenizer, and give the result as "
                   "\"prompt_token_ids\"");
    }
    if (value.contains("prompt_token_ids")) return add_ids(value, subject);
    if (!value.contains("prompt") || !value["prompt"].is_string())
      return wrong("has no text under \"prompt\"", R"(write {"prompt": "a text"})");
    return add_text(value["prompt"].get<std::string>(), "--prompts", subject);
  }

  std::vector<data::Prompt> take() { return std::move(prompts_); }
  std::size_t size() const { return prompts_.size(); }

 private:
  // The ids count; a text beside them is kept for the output.
  base::Status add_ids(const json& value, const std::string& subject) {
    const json& ids = value["prompt_token_ids"];
    data::Prompt prompt;
    if (value.contains("prompt") && value["prompt"].is_string())
      prompt.text = value["prompt"].get<std::string>();
    bool are_ids = ids.is_array() && !ids.empty();
    for (std::size_t i = 0; are_ids && i < ids.size(); ++i) {
      are_ids = ids[i].is_number_integer() && ids[i].get<std::int64_t>() >= 0 &&
                ids[i].get<std::int64_t>() < vocab_size_;
      if (are_ids) prompt.tokens.push_back(ids[i].get<std::int64_t>());
    }
    if (!are_ids) {
      return base::invalid_argument("--prompts",
                                    subject + " has \"prompt_token_ids\" that are not ids of the " +
                                        std::to_string(vocab_size_) + " tokens of the model",
                                    "give a list of at least one id");
    }
    prompts_.push_back(std::move(prompt));
    return {};
  }

  const data::Tokenizer tokenize_;
  const std::int64_t vocab_size_;
  std::vector<data::Prompt> prompts_;
};

base::Status read_prompt_lines(const std::string& path, GeneratePrompts& into) {
  const std::size_t before = into.size();
  auto bytes = base::read_small_file(path, kMaxGenerateBytes);
  if (!bytes) {
    return base::invalid_argument("--prompts", "\"" + path + "\" " + bytes.error().message,
                                  "give a file of at most 64 MiB");
  }
  const bool is_json = std::filesystem::path(path).extension() == ".jsonl";
  std::istringstream in(std::string(base::without_byte_order_mark(bytes.value())));
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    const std::string subject = "line " + std::to_string(number) + " of \"" + path + "\"";
    auto status =
        is_json ? into.add_json(line, subject) : into.add_text(line, "--prompts", subject);
    if (!status) return status;
  }
  if (into.size() > before) return {};
  return base::invalid_argument("--prompts", "\"" + path + "\" holds no prompt",
                                "write one on each line");
}

}  // namespace

base::Result<std::vector<data::Prompt>> read_generate_prompts(const config::TrainConfig& run,
                                                              const config::GenerateConfig& options,
                                                              const RunTokenizer& tokenizer) {
  GeneratePrompts prompts(tokenizer, run.model.vocab_size);
  for (const std::string& text : options.prompt)
    if (auto status = prompts.add_text(text, "--prompt", "the prompt"); !status)
      return status.error();
  if (!options.prompts.empty()) {
    if (auto status = read_prompt_lines(options.prompts, prompts); !status) return status.error();
  }
  if (prompts.size() <= kMaxGeneratePrompts) return prompts.take();
  return base::invalid_argument("--prompts",
                                "there are " + std::to_string(prompts.size()) +
                                    " prompts, more than " + std::to_string(kMaxGeneratePrompts),
                                "divide the file");
}

}  // namespace tt::cli
