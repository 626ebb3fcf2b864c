#include "tensor_tracer/checkpoint/model_files.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tensor_tracer/checkpoint/tensor_store.h"

namespace tt::checkpoint {
namespace {

namespace fs = std::filesystem;

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

TEST(ModelFiles, SplitsAboveTheLimitAndWritesAnIndex) {
  const fs::path folder = fs::temp_directory_path() / ("tt_files_" + std::to_string(::getpid()));
  const std::set<std::string> split = {
      "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
      "model-00003-of-00003.safetensors", "model.safetensors.index.json"};
  for (const std::size_t limit : {1000, 100}) {
    fs::create_directories(folder);
    // 40, 40, 400 and 8 bytes.
    const std::vector<TensorSpec> tensors = {{"b", at::kFloat, {10}},
                                             {"a", at::kFloat, {10}},
                                             {"large", at::kFloat, {100}},
                                             {"c", at::kFloat, {2}}};
    ModelFiles files(folder.string(), tensors, limit);
    for (const TensorSpec& tensor : tensors)
      ASSERT_TRUE(files.add(at::full(tensor.shape, tensor.shape[0], at::kFloat)).ok());
    ASSERT_TRUE(files.finish().ok());
    EXPECT_EQ(names_in(folder), limit == 100 ? split : std::set<std::string>{"model.safetensors"});
    std::vector<std::string> safetensors;
    for (const std::string& name : names_in(folder))
      if (name.ends_with(".safetensors")) safetensors.push_back(name);
    const auto store = TensorStore::open(folder.string(), safetensors);
    ASSERT_TRUE(store.ok());
    EXPECT_EQ(store.value().names(), (std::vector<std::string>{"a", "b", "c", "large"}));
    if (limit == 100) {
      std::ifstream file(folder / "model.safetensors.index.json");
      const nlohmann::json index = nlohmann::json::parse(file);
      EXPECT_EQ(index.at("metadata").at("total_size"), 488);
      EXPECT_EQ(index.at("weight_map").at("a"), "model-00001-of-00003.safetensors");
      EXPECT_EQ(index.at("weight_map").at("large"), "model-00002-of-00003.safetensors");
      EXPECT_EQ(index.at("weight_map").size(), 4);
    }
    fs::remove_all(folder);
  }
}

}  // namespace
}  // namespace tt::checkpoint
