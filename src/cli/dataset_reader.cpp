#include "src/cli/dataset_reader.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "tensor_tracer/data/indexed_documents.h"
#include "tensor_tracer/data/jsonl.h"
#include "tensor_tracer/data/prepared.h"

namespace tt::cli {
namespace {

namespace fs = std::filesystem;

bool is_file(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

DataForm form_of(const std::string& path) {
  if (data::PreparedFolder::is_at(path)) return DataForm::kPrepared;
  if (fs::path(path).extension() == ".jsonl") return DataForm::kJsonl;
  if (is_file(path + ".bin") && is_file(path + ".idx")) return DataForm::kIndexed;
  return DataForm::kText;
}

std::vector<std::string> files_of(const Dataset& dataset) {
  if (dataset.form == DataForm::kText || dataset.form == DataForm::kJsonl) return dataset.paths;
  const std::string& path = dataset.paths.front();
  if (dataset.form == DataForm::kPrepared) return data::PreparedFolder::paths_in(path);
  return {path + ".bin", path + ".idx"};
}

// One file of an indexed dataset would be read as text.
base::Status refuse_half(const std::string& path) {
  const fs::path given(path);
  const std::string prefix = (given.parent_path() / given.stem()).string();
  if (given.extension() != ".bin" && given.extension() != ".idx") return {};
  if (!is_file(prefix + ".bin") || !is_file(prefix + ".idx")) return {};
  return base::invalid_argument("--data-path", "\"" + path + "\" is half of an indexed dataset",
                                "give " + prefix + " without .bin and .idx");
}

// Of a dataset whose files are read by their number. The corpus has no empty files.
base::Status refuse_empty_files(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    std::error_code error;
    if (fs::file_size(file, error) == 0 && !error)
      return base::invalid_argument("--data-path", "\"" + file + "\" is empty", "leave it out");
  }
  return {};
}

base::Error wrong_tokenizer(const Dataset& dataset, const data::PreparedFolder& folder,
                            const RunTokenizer& tokenizer) {
  const std::string own = tokenizer.sha256.empty() ? "byte" : "of the SHA-256 " + tokenizer.sha256;
  return base::invalid_argument(
      "--data-path",
      fmt::format("\"{}\" was prepared with the tokenizer of the SHA-256 {}, and --tokenizer is {}",
                  dataset.paths.front(), folder.tokenizer_hash, own),
      "give --tokenizer the folder that the data was prepared with, or prepare the data again");
}

base::Result<data::PreparedFolder> prepared_folder(const Dataset& dataset) {
  return data::PreparedFolder::parse(dataset.files->file(0), dataset.paths.front());
}

base::Result<data::IndexedDocuments> open_indexed(const Dataset& dataset) {
  const std::string& path = dataset.paths.front();
  if (dataset.form == DataForm::kIndexed) {
    return data::IndexedDocuments::open(
        {.name = path, .bin = dataset.files->file(0), .index = dataset.files->file(1)});
  }
  const auto folder = prepared_folder(dataset);
  if (!folder) return folder.error();
  return folder.value().open(*dataset.files, path);
}

bool is_mapped(const Dataset& dataset) {
  return dataset.form == DataForm::kIndexed || dataset.form == DataForm::kPrepared;
}

base::Status check_mapped(const Dataset& dataset, const config::TrainConfig& config,
                          const RunTokenizer& tokenizer) {
  if (dataset.form == DataForm::kPrepared) {
    const auto folder = prepared_folder(dataset);
    if (!folder) return folder.error();
    if (folder.value().tokenizer_hash != tokenizer.sha256)
      return wrong_tokenizer(dataset, folder.value(), tokenizer);
  }
  const auto& documents = dynamic_cast<const data::IndexedDocuments&>(*dataset.documents);
  return documents.check_ids(config.model.vocab_size);
}

data::JsonlReader jsonl_reader(const RunTokenizer& tokenizer) {
  data::JsonlReader reader;
  if (tokenizer.file == nullptr) return reader;
  reader.tokenize = [file = tokenizer.file](const std::string& text) { return file->encode(text); };
  reader.end = tokenizer.end_of_text;
  return reader;
}

// The tensor of rank 0 on every rank; undefined if it is undefined there.
at::Tensor sent(const at::Tensor& own, at::ScalarType dtype, const comm::ProcessGroup& world) {
  const auto options = at::device(at::kCPU);
  at::Tensor size = at::full({1}, own.defined() ? own.size(0) : -1, options.dtype(at::kLong));
  world.broadcast(size, 0);
  const auto count = size.item<std::int64_t>();
  if (count < 0) return {};
  at::Tensor shared = own.defined() ? own : at::empty({count}, options.dtype(dtype));
  world.broadcast(shared, 0);
  return shared;
}

}  // namespace

base::Result<Dataset> open_dataset(const config::DataPart& part, const config::DataConfig& config) {
  Dataset dataset{.weight = part.weight, .paths = part.paths};
  if (!part.paths.empty()) dataset.form = form_of(part.paths.front());
  const bool takes_several = !is_mapped(dataset);
  for (const std::string& path : part.paths) {
    if (auto status = refuse_half(path); !status) return status.error();
    if (form_of(path) == dataset.form && (takes_several || part.paths.size() == 1)) continue;
    return base::invalid_argument(
        "--data-path",
        fmt::format("\"{}\" and \"{}\" are two datasets", part.paths.front(), part.paths.back()),
        "give a weight before each path, for example 0.3 A 0.7 B");
  }
  const std::vector<std::string> files = files_of(dataset);
  if (dataset.form != DataForm::kText)
    if (auto status = refuse_empty_files(files); !status) return status.error();
  auto corpus = data::TextCorpus::open(files, config.data_exclude);
  if (!corpus) return corpus.error();
  dataset.files = std::make_shared<const data::TextCorpus>(std::move(corpus).value());
  return dataset;
}

bool is_sent(const Dataset& dataset, const RunTokenizer& tokenizer) {
  return dataset.form == DataForm::kJsonl ||
         (dataset.form == DataForm::kText && !tokenizer.hash.empty());
}

base::Status read_files(Dataset& dataset) {
  if (dataset.form == DataForm::kText) {
    dataset.tokens = std::make_shared<const data::ByteTokens>(*dataset.files);
    return {};
  }
  auto documents = open_indexed(dataset);
  if (!documents) return documents.error();
  dataset.documents = std::make_shared<const data::IndexedDocuments>(std::move(documents).value());
  return {};
}

base::Status read_dataset(Dataset& dataset, const config::TrainConfig& config,
                          const RunTokenizer& tokenizer) {
  if (!is_sent(dataset, tokenizer)) {
    const auto status = read_files(dataset);
    return status && is_mapped(dataset) ? check_mapped(dataset, config, tokenizer) : status;
  }
  if (dataset.form == DataForm::kText) {
    auto ids = data::tokenize(*dataset.files, *tokenizer.file, tokenizer.end_of_text);
    if (!ids) return ids.error();
    dataset.tokens = std::make_shared<const data::IdTokens>(std::move(ids).value());
    return {};
  }
  auto documents = jsonl_reader(tokenizer).read(*dataset.files, dataset.paths);
  if (!documents) return documents.error();
  dataset.documents = std::move(documents).value();
  return {};
}

void send_tokens(Dataset& dataset, const comm::ProcessGroup& world) {
  if (dataset.form == DataForm::kText) {
    const auto* const own = dynamic_cast<const data::IdTokens*>(dataset.tokens.get());
    at::Tensor ids = sent(own != nullptr ? own->ids() : at::Tensor(), at::kInt, world);
    if (own == nullptr) dataset.tokens = std::make_shared<const data::IdTokens>(std::move(ids));
    return;
  }
  const auto* const own = dynamic_cast<const data::MemoryDocuments*>(dataset.documents.get());
  at::Tensor ids, counted, begin;
  if (own != nullptr) {
    const data::MemoryDocuments::Tokens& tokens = own->tokens();
    ids = tokens.ids;
    if (tokens.counted.defined()) counted = tokens.counted.view(at::kByte);
    begin = at::empty({std::ssize(tokens.begin)}, at::device(at::kCPU).dtype(at::kLong));
    std::ranges::copy(tokens.begin, begin.mutable_data_ptr<std::int64_t>());
  }
  ids = sent(ids, at::kInt, world);
  counted = sent(counted, at::kByte, world);
  begin = sent(begin, at::kLong, world);
  if (own != nullptr) return;
  data::MemoryDocuments::Tokens tokens{
      ids, counted.defined() ? counted.view(at::kBool) : counted, {}};
  const auto* const first = begin.const_data_ptr<std::int64_t>();
  tokens.begin.assign(first, first + begin.size(0));
  dataset.documents = std::make_shared<const data::MemoryDocuments>(
      std::move(tokens), std::vector<std::string>(),
      std::vector<std::pair<std::int32_t, std::int32_t>>());
}

}  // namespace tt::cli
