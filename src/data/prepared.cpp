#include "tensor_tracer/data/prepared.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

namespace tt::data {
namespace {

using nlohmann::json;

constexpr const char* kFile = "prepared.json";
constexpr const char* kFormat = "tensor-tracer prepared data";
constexpr const char* kRemedy =
    "make the folder again with python -m tensor_tracer prepare FILE --tokenizer DIR --out DIR";

base::Error wrong(const std::string& path, const std::string& message) {
  return base::invalid_argument("--data-path", "\"" + path + "/" + kFile + "\" " + message,
                                kRemedy);
}

bool has_natural(const json& object, const char* key) {
  return object.contains(key) && object[key].is_number_unsigned();
}

}  // namespace

bool PreparedFolder::is_at(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(std::filesystem::path(path) / kFile, error);
}

std::vector<std::string> PreparedFolder::paths_in(const std::string& path) {
  std::vector<std::string> paths;
  for (const char* name : {kFile, "data.bin", "data.idx", "data.roles.bin"})
    paths.push_back((std::filesystem::path(path) / name).string());
  return paths;
}

base::Result<PreparedFolder> PreparedFolder::parse(std::string_view text, const std::string& path) {
  const json facts = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!facts.is_object() || facts.value("format", json()) != json(kFormat))
    return wrong(path, "is not the description of prepared data");
  if (facts.value("version", json()) != json(1))
    return wrong(
        path, "has the version " + facts.value("version", json()).dump() + ", and only 1 is known");
  for (const char* key : {"vocab_size", "documents", "tokens"})
    if (!has_natural(facts, key)) return wrong(path, fmt::format("has no number \"{}\"", key));
  if (!facts.value("tokenizer_hash", json()).is_string())
    return wrong(path, "has no \"tokenizer_hash\"");
  const json roles = facts.value("roles", json());
  const auto found = std::find(roles.begin(), roles.end(), json("assistant"));
  if (!roles.is_array() || found == roles.end() || roles.size() > 256)
    return wrong(path, "has no role \"assistant\" among its \"roles\"");
  PreparedFolder folder;
  folder.tokenizer_hash = facts["tokenizer_hash"];
  folder.vocab_size = facts["vocab_size"];
  folder.documents = facts["documents"];
  folder.tokens = facts["tokens"];
  folder.counted_role = static_cast<std::uint8_t>(found - roles.begin());
  return folder;
}

base::Result<IndexedDocuments> PreparedFolder::open(const TextCorpus& files,
                                                    const std::string& path) const {
  if (files.num_files() != 4) return wrong(path, "lies beside an empty file of the data");
  auto opened = IndexedDocuments::open({.name = path + "/data",
                                        .bin = files.file(1),
                                        .index = files.file(2),
                                        .roles = files.file(3),
                                        .counted_role = counted_role});
  if (!opened) return opened.error();
  if (opened.value().size() != documents)
    return wrong(path, fmt::format("says {} documents, and data.idx has {}", documents,
                                   opened.value().size()));
  if (num_tokens(opened.value()) != tokens)
    return wrong(path, fmt::format("says {} tokens, and data.idx has {}", tokens,
                                   num_tokens(opened.value())));
  return opened;
}

}  // namespace tt::data
