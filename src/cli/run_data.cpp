#include "src/cli/run_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "src/cli/agreement.h"
#include "src/cli/dataset_reader.h"
#include "tensor_tracer/base/size_text.h"
#include "tensor_tracer/data/document_samples.h"
#include "tensor_tracer/data/sample_order.h"

namespace tt::cli {
namespace {

// The order of the sequences is held in memory, 16 bytes for each sequence.
constexpr std::int64_t kMaxSequences = std::int64_t{1} << 27;

base::Status check_size(const config::TrainConfig& config, const data::SampleSource& samples,
                        const std::string& paths) {
  const std::int64_t seq_length = config.model.seq_length;
  if (samples.size() > kMaxSequences) {
    return base::invalid_argument(
        "--data-path",
        fmt::format("the {} tokens of \"{}\" make {} sequences of {} tokens, more than {}",
                    samples.num_tokens(), paths, samples.size(), seq_length, kMaxSequences),
        "give less text or a larger --seq-length");
  }
  const data::SampleOrder order(samples.size(),
                                config::parse_split(config.data.split).value().second, 0);
  if (order.num_train() > 0 && order.num_valid() > 0) return {};
  return base::invalid_argument(
      "--data-path",
      fmt::format(
          "the {} tokens of \"{}\" make {} training and {} validation sequences of {} tokens",
          samples.num_tokens(), paths, order.num_train(), order.num_valid(), seq_length),
      "give more text, a smaller --seq-length or another --split");
}

bool is_bytes(const Dataset& dataset) {
  return dynamic_cast<const data::ByteTokens*>(dataset.tokens.get()) != nullptr;
}

base::Result<std::unique_ptr<const data::SampleSource>> samples_of(
    const Dataset& dataset, const config::TrainConfig& config) {
  const std::int64_t seq_length = config.model.seq_length;
  using Samples = std::unique_ptr<const data::SampleSource>;
  if (dataset.is_joined(config.data)) {
    std::shared_ptr<const data::TokenSource> tokens = dataset.tokens;
    if (tokens == nullptr) tokens = std::make_shared<data::JoinedDocuments>(dataset.documents);
    return Samples(std::make_unique<data::StreamSamples>(std::move(tokens), seq_length));
  }
  if (dataset.documents == nullptr) {
    return base::invalid_argument(
        "--documents",
        fmt::format("\"{}\" is plain text, which has no documents", dataset.paths.front()),
        "leave the option out, or give .jsonl files");
  }
  auto made =
      data::DocumentSamples::make(dataset.documents, {.seq_length = seq_length,
                                                      .packs = config.data.documents != "padded",
                                                      .cuts = config.data.overlong == "cut"});
  if (!made) return made.error();
  return Samples(std::make_unique<data::DocumentSamples>(std::move(made).value()));
}

}  // namespace

bool Dataset::is_joined(const config::DataConfig& config) const {
  if (config.documents != "auto") return config.documents == "joined";
  return form == DataForm::kText || form == DataForm::kIndexed;
}

base::Result<RunData> RunData::open(const config::DataConfig& config) {
  auto parts = config::parse_data_path(config.data_path);
  if (!parts) return parts.error();
  RunData run;
  for (const config::DataPart& part : parts.value()) {
    auto dataset = open_dataset(part, config);
    if (!dataset) return dataset.error();
    run.datasets_.push_back(std::move(dataset).value());
  }
  return run;
}

base::Status RunData::make_blend(const config::TrainConfig& config) {
  blend_.clear();
  for (const Dataset& dataset : datasets_) {
    auto samples = samples_of(dataset, config);
    if (!samples) return samples.error();
    blend_.push_back({std::move(samples).value(), dataset.weight});
  }
  return {};
}

base::Status RunData::read(const config::TrainConfig& config, const RunTokenizer& tokenizer) {
  for (Dataset& dataset : datasets_)
    if (auto status = read_dataset(dataset, config, tokenizer); !status) return status;
  if (auto status = make_blend(config); !status) return status;
  double weights = 0;
  for (std::size_t i = 0; i < blend_.size(); ++i) {
    const data::BlendPart& part = blend_[i];
    const std::string paths = fmt::format("{}", fmt::join(datasets_[i].paths, ", "));
    if (auto status = check_size(config, *part.samples, paths); !status) return status;
    weights += part.weight;
    entropy_ += part.weight * part.samples->unigram_entropy();
  }
  if (blend_.size() > 1) entropy_ /= weights;
  return {};
}

base::Status RunData::share(const config::TrainConfig& config, const RunTokenizer& tokenizer,
                            const comm::ProcessGroup& world) {
  base::Status status;
  for (Dataset& dataset : datasets_)
    if (is_sent(dataset, tokenizer))
      send_tokens(dataset, world);
    else if (world.rank() != 0 && status)
      status = read_files(dataset);
  if (world.rank() != 0 && status) status = make_blend(config);
  return share_status(status, world);
}

bool RunData::has_bytes() const { return std::ranges::all_of(datasets_, is_bytes); }

std::string RunData::description() const {
  if (datasets_.size() == 1) return datasets_.front().files->description();
  std::string text;
  for (const Dataset& dataset : datasets_) {
    text += text.empty() ? "" : ", and ";
    text += fmt::format("{} of {}", dataset.weight, dataset.files->description());
  }
  return text;
}

std::vector<std::string> RunData::lines() const {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < datasets_.size(); ++i) {
    const Dataset& dataset = datasets_[i];
    const data::SampleSource& samples = *blend_[i].samples;
    std::string line;
    if (datasets_.size() > 1)
      line = fmt::format("{} of {}: ", dataset.weight, dataset.paths.front());
    line += fmt::format("{} bytes in {} files", base::with_commas(dataset.files->size()),
                        base::with_commas(dataset.files->num_files()));
    if (!is_bytes(dataset))
      line += fmt::format(", {} tokens", base::with_commas(samples.num_tokens()));
    if (const auto* const rows = dynamic_cast<const data::DocumentSamples*>(&samples)) {
      line +=
          fmt::format(" in {} documents, {} sequences", base::with_commas(rows->num_documents()),
                      base::with_commas(rows->size()));
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> RunData::notices() const {
  std::vector<std::string> notices;
  for (std::size_t i = 0; i < datasets_.size(); ++i) {
    const auto* const rows = dynamic_cast<const data::DocumentSamples*>(blend_[i].samples.get());
    if (rows == nullptr) continue;
    const std::string& path = datasets_[i].paths.front();
    if (rows->num_cut() > 0)
      notices.push_back(fmt::format("{}: {} documents are longer than the sequence and are cut",
                                    path, rows->num_cut()));
    if (rows->num_left_out() > 0) {
      notices.push_back(
          fmt::format("{}: {} documents are left out, as none of their tokens counts "
                      "in the loss",
                      path, rows->num_left_out()));
    }
  }
  return notices;
}

}  // namespace tt::cli
