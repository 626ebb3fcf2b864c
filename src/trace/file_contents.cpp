#include "tensor_tracer/trace/file_contents.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "tensor_tracer/comm/collectives.h"

namespace tt::trace {
namespace {

using nlohmann::json;

// Uses MessagePack, because file names may contain any bytes.
std::string describe(const FileContents& contents) {
  json vectors = json::array(), tensors = json::array();
  for (const auto& [name, vector] : contents.vectors)
    vectors.push_back({name, vector->hidden_size, vector->has_embedding_row, vector->rows.size()});
  for (const auto& [key, tensor] : contents.tensors) {
    tensors.push_back(
        {key.first, key.second, static_cast<int>(tensor.scalar_type()), tensor.sizes().vec()});
  }
  std::string text;
  json::to_msgpack({{"vectors", std::move(vectors)}, {"tensors", std::move(tensors)}}, text);
  return text;
}

// The rows of a vector as a tensor that shares their memory. The root only reads it.
at::Tensor rows_of(const DirectionVector& vector) {
  return at::from_blob(const_cast<float*>(vector.rows.data()),
                       {static_cast<std::int64_t>(vector.rows.size())}, at::kFloat);
}

void make_room(const std::string& text, FileContents& contents) {
  const json described = json::from_msgpack(text);
  contents = {};
  for (const json& one : described.at("vectors")) {
    auto vector = std::make_shared<DirectionVector>();
    vector->name = one.at(0);
    vector->hidden_size = one.at(1);
    vector->has_embedding_row = one.at(2);
    vector->rows.resize(one.at(3).get<std::size_t>());
    contents.vectors[vector->name] = std::move(vector);
  }
  for (const json& one : described.at("tensors")) {
    contents.tensors[{one.at(0), one.at(1)}] =
        at::empty(one.at(3).get<std::vector<std::int64_t>>(),
                  at::device(at::kCPU).dtype(static_cast<at::ScalarType>(one.at(2).get<int>())));
  }
}

base::Error not_received(const std::string& name) {
  return {"not_found", "\"" + name + "\" did not come with the plan or program", "", ""};
}

}  // namespace

void broadcast_contents(const comm::ProcessGroup& group, FileContents& contents, int root) {
  const bool is_root = group.rank() == root;
  std::string text = is_root ? describe(contents) : std::string();
  comm::broadcast_text(group, text, root);
  if (!is_root) make_room(text, contents);
  for (const auto& [name, vector] : contents.vectors) {
    at::Tensor rows = rows_of(*vector);
    group.broadcast(rows, root);
  }
  for (auto& [key, tensor] : contents.tensors) {
    at::Tensor dense = tensor.contiguous();
    group.broadcast(dense, root);
    tensor = std::move(dense);
  }
}

std::vector<std::string> ReceivedFiles::names() {
  std::vector<std::string> names;
  for (const auto& [name, vector] : contents_.vectors) names.push_back(name);
  return names;
}

base::Result<std::shared_ptr<const DirectionVector>> ReceivedFiles::find(const std::string& name) {
  const auto found = contents_.vectors.find(name);
  if (found == contents_.vectors.end()) return not_received(name);
  return found->second;
}

base::Result<at::Tensor> ReceivedFiles::find(const std::string& file, const std::string& name) {
  const auto found = contents_.tensors.find({file, name});
  if (found == contents_.tensors.end()) return not_received(file);
  return found->second;
}

}  // namespace tt::trace
