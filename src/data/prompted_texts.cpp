#include "tensor_tracer/data/prompted_texts.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "src/data/prompted_documents.h"
#include "src/data/prompted_lines.h"
#include "tensor_tracer/base/sha256.h"
#include "tensor_tracer/data/prepared.h"

namespace tt::data {
namespace {

using Opened = base::Result<std::unique_ptr<PromptedTexts>>;

// Readers of training data name their own option.
base::Error of_option(base::Error error, const std::string& option) {
  error.where = option;
  return error;
}

Opened open_prepared(const std::string& path, std::shared_ptr<const TextCorpus> files,
                     const PromptedTextOptions& options) {
  const auto folder = PreparedFolder::parse(files->file(0), path);
  if (!folder) return of_option(folder.error(), options.option);
  if (folder.value().tokenizer_hash != options.tokenizer_sha256) {
    return base::invalid_argument(options.option,
                                  "\"" + path + "\" was prepared with another tokenizer",
                                  "prepare it again with the tokenizer of the model");
  }
  auto documents = folder.value().open(*files, path);
  if (!documents) return of_option(documents.error(), options.option);
  if (auto status = documents.value().check_ids(options.vocab_size); !status)
    return of_option(status.error(), options.option);
  return Opened(
      std::make_unique<PromptedDocuments>(std::move(files), std::move(documents).value()));
}

}  // namespace

void PromptedText::cut(std::int64_t most) {
  if (length() <= most) return;
  ids.resize(static_cast<std::size_t>(most));
  std::erase_if(response, [=](const auto& span) { return span.first >= most; });
  if (!response.empty()) response.back().second = std::min(response.back().second, most);
}

Opened PromptedTexts::open(const std::string& path, const PromptedTextOptions& options) {
  const bool is_prepared = PreparedFolder::is_at(path);
  std::error_code error;
  if (!is_prepared && std::filesystem::is_directory(path, error)) {
    return base::invalid_argument(options.option,
                                  "\"" + path + "\" is a folder without prepared.json",
                                  "give a file, or a folder that prepare wrote");
  }
  auto corpus = TextCorpus::open(
      is_prepared ? PreparedFolder::paths_in(path) : std::vector<std::string>{path}, {});
  if (!corpus) return of_option(corpus.error(), options.option);
  auto files = std::make_shared<const TextCorpus>(std::move(corpus).value());
  if (is_prepared) return open_prepared(path, std::move(files), options);
  const bool is_json = std::filesystem::path(path).extension() == ".jsonl";
  return Opened(std::make_unique<PromptedLines>(std::move(files), path, is_json, options));
}

std::string PromptedTexts::sha256() const {
  if (files_->num_files() == 1) return base::sha256_of(files_->file(0));
  std::string hashes;
  for (std::int64_t file = 0; file < files_->num_files(); ++file)
    hashes += base::sha256_of(files_->file(file));
  return base::sha256_of(hashes);
}

}  // namespace tt::data
