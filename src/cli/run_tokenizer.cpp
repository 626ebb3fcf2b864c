#include "src/cli/run_tokenizer.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "tensor_tracer/base/hash.h"
#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/base/sha256.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/protocol/message.h"
#include "tensor_tracer/tokenize/utf8.h"

namespace tt::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kBytes = "byte";
constexpr std::int64_t kNumBytes = 256;
constexpr std::size_t kMaxTextBytes = std::size_t{2} << 20U;  // a hub takes facts of 4 MiB
constexpr std::size_t kMaxSettingsBytes = std::size_t{16} << 20U;

fs::path file_of(const fs::path& given) {
  std::error_code error;
  return fs::is_directory(given, error) ? given / "tokenizer.json" : given;
}

// The name of the token that ends a text, in the settings beside the file.
std::string end_of_text_in(const fs::path& folder) {
  const auto text =
      base::read_small_file((folder / "tokenizer_config.json").string(), kMaxSettingsBytes);
  if (!text) return "";
  const auto parsed = protocol::parse_json(text.value(), {.bytes = kMaxSettingsBytes});
  if (!parsed) return "";
  const json& settings = parsed.value();
  json end = settings.is_object() ? settings.value("eos_token", json()) : json();
  if (end.is_object()) end = end.value("content", json());
  return end.is_string() ? end.get<std::string>() : "";
}

std::optional<std::int64_t> find_end_of_text(const fs::path& folder,
                                             const tokenize::Tokenizer& tokenizer) {
  const std::string name = end_of_text_in(folder);
  if (name.empty()) return std::nullopt;
  const auto ids = tokenizer.encode(name);
  if (!ids || ids.value().size() != 1) return std::nullopt;
  return ids.value().front();
}

std::shared_ptr<const intervene::TokenTexts> texts_of(const tokenize::Tokenizer& tokenizer) {
  intervene::TokenTexts texts;
  std::size_t bytes = 0;
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    texts.push_back(tokenizer.decode({&id, 1}));
    bytes += json(texts.back()).dump().size() + 1;
  }
  if (bytes > kMaxTextBytes) return nullptr;
  return std::make_shared<const intervene::TokenTexts>(std::move(texts));
}

base::Status fit_vocabulary(config::TrainConfig& config, const json& given, std::int64_t ids) {
  std::int64_t& rows = config.model.vocab_size;
  if (config.checkpoint.hf_model.empty() && !given.contains("vocab-size")) rows = ids;
  if (ids <= rows) return {};
  const bool is_model = !config.checkpoint.hf_model.empty();
  return base::invalid_argument(
      is_model ? "--tokenizer" : "--vocab-size",
      fmt::format("the tokenizer has {} ids, and the model {} rows", ids, rows),
      is_model ? "give the tokenizer of the model" : "give more, or leave it out");
}

}  // namespace

fs::path tokenizer_folder(const std::string& tokenizer) { return file_of(tokenizer).parent_path(); }

data::Tokenizer RunTokenizer::for_prompts() const {
  if (file == nullptr) return data::bytes_of;
  return [file = file](const std::string& text) { return file->encode(text, true); };
}

std::string RunTokenizer::text_of(const std::vector<std::int64_t>& ids) const {
  if (file != nullptr) return file->decode(ids, true);
  std::string bytes;
  for (const std::int64_t id : ids)
    if (id < kNumBytes) bytes.push_back(static_cast<char>(id));
  return tokenize::replace_invalid(bytes);
}

json RunTokenizer::facts() const {
  if (hash.empty()) return {{"kind", kBytes}};
  json facts = {{"kind", "tokenizer.json"}, {"hash", hash}};
  if (texts != nullptr) facts["texts"] = *texts;
  return facts;
}

base::Result<RunTokenizer> read_tokenizer(config::TrainConfig& config, const json& given) {
  std::string& path = config.data.tokenizer;
  std::error_code error;
  const fs::path of_model = fs::path(config.checkpoint.hf_model) / "tokenizer.json";
  if (path.empty())
    path = !config.checkpoint.hf_model.empty() && fs::exists(of_model, error) ? of_model.string()
                                                                              : kBytes;
  if (path == kBytes) {
    RunTokenizer bytes;
    if (!config.checkpoint.hf_model.empty() && !given.contains("tokenizer"))
      bytes.notice = "the model has no tokenizer.json: each byte of the text is a token";
    return bytes;
  }
  const fs::path file = file_of(path);
  const auto text = base::read_small_file(file.string(), tokenize::kMaxFileBytes);
  if (!text) {
    return base::invalid_argument("--tokenizer",
                                  "\"" + file.string() + "\" " + text.error().message,
                                  "give a tokenizer.json, its folder, or byte");
  }
  auto read = tokenize::Tokenizer::read(text.value(), file.string());
  if (!read) return read.error();
  if (auto status = fit_vocabulary(config, given, read.value().vocab_size()); !status)
    return status.error();
  RunTokenizer tokenizer;
  tokenizer.end_of_text = find_end_of_text(file.parent_path(), read.value());
  tokenizer.hash = fmt::format(
      "{:016x}", base::mix(base::hash_of(text.value()),
                           static_cast<std::uint64_t>(tokenizer.end_of_text.value_or(-1))));
  tokenizer.sha256 = base::sha256_of(text.value());
  tokenizer.texts = texts_of(read.value());
  tokenizer.file = std::make_shared<const tokenize::Tokenizer>(std::move(read).value());
  return tokenizer;
}

void share_tokenizer(RunTokenizer& tokenizer, config::TrainConfig& config,
                     const comm::ProcessGroup& world) {
  std::string packed;
  if (world.rank() == 0) {
    const json texts = tokenizer.texts != nullptr ? json(*tokenizer.texts) : json();
    json::to_msgpack(json{config.data.tokenizer, config.model.vocab_size, tokenizer.hash,
                          tokenizer.hash.empty() ? json() : texts, tokenizer.stop_ids},
                     packed);
  }
  comm::broadcast_text(world, packed, 0);
  if (world.rank() == 0) return;
  const json shared = json::from_msgpack(packed);
  config.data.tokenizer = shared.at(0);
  config.model.vocab_size = shared.at(1);
  tokenizer.hash = shared.at(2);
  tokenizer.stop_ids = shared.at(4).get<std::set<std::int64_t>>();
  if (tokenizer.hash.empty()) return;
  tokenizer.texts.reset();
  if (!shared.at(3).is_null())
    tokenizer.texts = std::make_shared<const intervene::TokenTexts>(shared.at(3));
}

}  // namespace tt::cli
