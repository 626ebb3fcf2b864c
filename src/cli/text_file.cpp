#include "src/cli/text_file.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tt::cli {
namespace {

data::PromptedTextOptions reading_options(const std::string& option, const ModelToRun& model,
                                          const config::TrainConfig& config) {
  data::PromptedTextOptions options;
  options.tokenizer_sha256 = model.tokenizer.sha256;
  options.vocab_size = config.model.vocab_size;
  options.option = option;
  if (model.tokenizer.file != nullptr) {
    options.tokenize = [file = model.tokenizer.file](const std::string& text) {
      return file->encode(text);
    };
  }
  return options;
}

// Counts a text. `place`: for errors.
base::Status count_text(TextFile& file, const std::string& option, const data::PromptedText& text,
                        std::int64_t most, bool cuts) {
  const std::string place = file.texts->place();
  if (text.length() == 0)
    return base::invalid_argument(option, place + " has no token", "leave it out");
  if (text.length() > most && !cuts) {
    return base::invalid_argument(
        option,
        fmt::format("{} has {} tokens, and the model {} positions", place, text.length(), most),
        "shorten it, or cut such texts with --overlong cut");
  }
  const std::int64_t length = std::min(text.length(), most);
  ++file.size;
  file.tokens += length;
  file.longest = std::max(file.longest, length);
  file.num_cut += length < text.length() ? 1 : 0;
  file.with_prompt += text.prompt_length() > 0 ? 1 : 0;
  file.with_response += text.response.empty() || text.response[0].first >= most ? 0 : 1;
  return {};
}

}  // namespace

nlohmann::json TextFile::facts() const {
  return {{"file", path}, {"sha256", sha256}, {"texts", size}, {"tokens", tokens}};
}

base::Result<TextFile> read_text_file(const std::string& option, const std::string& path,
                                      const ModelToRun& model, const config::TrainConfig& config,
                                      bool takes_generated) {
  data::PromptedTextOptions reading = reading_options(option, model, config);
  reading.takes_generated = takes_generated;
  auto opened = data::PromptedTexts::open(path, reading);
  if (!opened) return opened.error();
  TextFile file;
  file.path = path;
  file.texts = std::move(opened).value();
  const std::int64_t most = most_tokens(config.model);
  for (;;) {
    const auto text = file.texts->next();
    if (!text) return text.error();
    if (!text.value()) break;
    auto status = count_text(file, option, *text.value(), most, config.data.overlong == "cut");
    if (!status) return status.error();
  }
  if (file.size == 0)
    return base::invalid_argument(option, "\"" + path + "\" holds no text", "give a file of texts");
  file.texts->rewind();
  file.sha256 = file.texts->sha256();
  return file;
}

void share_text_sizes(std::span<TextFile> files, const comm::ProcessGroup& world) {
  for (TextFile& file : files) {
    at::Tensor size = at::full({1}, file.size, at::device(at::kCPU).dtype(at::kLong));
    world.broadcast(size, 0);
    file.size = size.item<std::int64_t>();
  }
}

}  // namespace tt::cli
