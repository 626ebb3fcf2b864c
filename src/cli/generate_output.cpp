#include "src/cli/generate_output.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace tt::cli {
namespace {

using nlohmann::json;

constexpr std::int64_t kNumBytes = 256;

}  // namespace

base::Result<GenerateOutput> GenerateOutput::open(const config::GenerateConfig& options,
                                                  std::size_t num_prompts,
                                                  const RunTokenizer& tokenizer) {
  const std::string& path = options.output;
  GenerateOutput output(tokenizer);
  output.path_ = path;
  output.is_stream_ = path.empty() && num_prompts == 1 && options.top_logits == 0;
  if (tokenizer.file != nullptr) output.decoder_.emplace(*tokenizer.file, true);
  if (path.empty()) return output;
  std::error_code error;
  const std::filesystem::file_status now = std::filesystem::status(path, error);
  const bool is_folder = std::filesystem::is_directory(now);
  const bool is_device = std::filesystem::is_other(now);  // such as a pipe
  output.written_ = is_device ? path : path + ".partial";
  if (!is_folder) output.file_.open(output.written_, std::ios::binary | std::ios::trunc);
  if (output.file_.is_open()) return output;
  return base::invalid_argument(
      "--output", "\"" + path + "\" " + (is_folder ? "is a folder" : "cannot be written"),
      "give a file in a folder that exists");
}

void GenerateOutput::token(std::int64_t id) {
  if (!is_stream_) return;
  std::string text;
  if (decoder_)
    text = decoder_->add(id);
  else if (id < kNumBytes)
    text.push_back(static_cast<char>(id));
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void GenerateOutput::response(const data::Prompt& prompt, const generate::Response& response) {
  if (is_stream_) {
    fmt::print("{}\n", decoder_ ? decoder_->finish() : "");
    return;
  }
  json line = {{"prompt", prompt.text.empty() ? json() : json(prompt.text)},
               {"text", tokenizer_->text_of(response.ids)},
               {"prompt_token_ids", prompt.tokens},
               {"token_ids", response.ids},
               {"finish_reason", response.finish_reason()}};
  if (!response.logprobs.empty()) {
    line["logprobs"] = response.logprobs;
    line["top_ids"] = response.top_ids;
    line["top_logits"] = response.top_logits;
  }
  const std::string text = line.dump() + "\n";
  if (file_.is_open())
    file_ << text << std::flush;
  else
    std::fwrite(text.data(), 1, text.size(), stdout);
}

base::Status GenerateOutput::close() {
  std::fflush(stdout);
  if (!file_.is_open()) return {};
  file_.close();
  std::error_code error;
  if (file_ && written_ != path_) std::filesystem::rename(written_, path_, error);
  if (file_ && !error) return {};
  return base::Error{"io_error", "\"" + path_ + "\" could not be written", "--output",
                     "free some space"};
}

}  // namespace tt::cli
