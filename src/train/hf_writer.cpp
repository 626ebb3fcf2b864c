#include "tensor_tracer/train/hf_writer.h"

#include <ATen/ATen.h>

#include <filesystem>
#include <initializer_list>
#include <system_error>
#include <utility>

#include "src/train/new_folder.h"
#include "tensor_tracer/dtypes/names.h"

namespace tt::train {
namespace {

namespace fs = std::filesystem;

constexpr std::initializer_list<const char*> kTokenizerFiles = {"tokenizer.json",
                                                                "tokenizer_config.json",
                                                                "special_tokens_map.json",
                                                                "added_tokens.json",
                                                                "vocab.json",
                                                                "merges.txt",
                                                                "tokenizer.model",
                                                                "chat_template.jinja"};

base::Status copy_files(const std::string& from, std::initializer_list<const char*> names,
                        const NewFolder& to) {
  for (const char* name : names) {
    std::error_code error;
    if (from.empty() || !fs::exists(fs::path(from) / name, error)) continue;
    if (auto status = to.copy(fs::path(from) / name); !status) return status;
  }
  return {};
}

}  // namespace

nlohmann::json with_dtype(nlohmann::json config, at::ScalarType dtype) {
  config.erase("torch_dtype");
  config["dtype"] = dtypes::name_of(dtype);
  return config;
}

HfWriter::HfWriter(HfFolder folder, std::string flag)
    : folder_(std::move(folder)),
      made_(std::make_unique<NewFolder>(folder_.path, std::move(flag), folder_.replaces)) {}

HfWriter::~HfWriter() {
  if (is_open_) made_->discard();
}

base::Status HfWriter::begin(const std::vector<checkpoint::TensorSpec>& tensors,
                             std::size_t max_file_bytes) {
  is_open_ = true;
  files_.emplace(made_->path().string(), tensors, max_file_bytes);
  return made_->make();
}

base::Status HfWriter::add(const at::Tensor& tensor) { return files_->add(tensor); }

base::Status HfWriter::finish() {
  auto status = files_->finish();
  if (status) status = made_->write("config.json", folder_.config.dump(2) + "\n");
  if (status) status = copy_files(folder_.model_from, {"generation_config.json"}, *made_);
  if (status) status = copy_files(folder_.tokenizer_from, kTokenizerFiles, *made_);
  if (!status) return status;
  // A folder that is complete is not lost if its name is taken.
  is_open_ = false;
  return made_->publish();
}

}  // namespace tt::train
