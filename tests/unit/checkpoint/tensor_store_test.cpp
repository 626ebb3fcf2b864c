#include "tensor_tracer/checkpoint/tensor_store.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor_tracer/checkpoint/safetensors.h"
#include "tensor_tracer/comm/shards.h"

namespace tt::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class TensorStoreTest : public testing::Test {
 protected:
  TensorStoreTest()
      : folder_(fs::temp_directory_path() / ("tt_store_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~TensorStoreTest() override { fs::remove_all(folder_); }

  /// A file with one part of the tensor "w".
  void write_part(const std::string& file, const at::Tensor& part,
                  const std::vector<std::int64_t>& offsets) {
    const json sharding = {{"w", {{"saved_offsets", offsets}}}};
    ASSERT_TRUE(write_safetensors((folder_ / file).string(), {{"w", part}},
                                  {{"DCP_VERSION", "1.0"}, {"DCP_SHARDING_INFO", sharding.dump()}})
                    .ok());
  }
  void write_raw(const std::string& file, const std::string& header, std::size_t data_bytes) {
    std::ofstream out(folder_ / file, std::ios::binary);
    const auto size = static_cast<std::uint64_t>(header.size());
    out.write(reinterpret_cast<const char*>(&size), sizeof size);
    out << header << std::string(data_bytes, '\0');
  }
  base::Result<TensorStore> open(const std::vector<std::string>& files) const {
    return TensorStore::open(folder_.string(), files);
  }
  std::string refusal(const std::vector<std::string>& files) const {
    const auto store = open(files);
    return store ? "" : to_string(store.error());
  }
  const fs::path folder_;
};

at::Tensor numbers(std::vector<std::int64_t> shape, at::ScalarType dtype = at::kFloat) {
  const std::int64_t count = at::empty(shape).numel();
  return at::arange(count, at::device(at::kCPU).dtype(dtype)).reshape(shape);
}

// Queries, keys and values: six rows of heads in three segments, of which keys and values have
// fewer chunks than ranks.
TEST_F(TensorStoreTest, EveryShardIsReadFromWholeTensorsAndFromParts) {
  const at::Tensor full = numbers({12, 4});
  ASSERT_TRUE(write_safetensors((folder_ / "whole.safetensors").string(), {{"w", full}}, {}).ok());
  write_part("a.safetensors", full.narrow(0, 0, 5), {0, 0});
  write_part("b.safetensors", full.narrow(0, 5, 7).narrow(1, 0, 1), {5, 0});
  write_part("c.safetensors", full.narrow(0, 5, 7).narrow(1, 1, 3), {5, 1});
  const std::vector<mesh::Placement> placements = {
      mesh::Placement::replicate(), mesh::Placement::shard(1, {{4, 4}}),
      mesh::Placement::shard(0, {{8, 4}, {2, 2}, {2, 1}})};
  for (const auto& files :
       {std::vector<std::string>{"whole.safetensors"},
        std::vector<std::string>{"a.safetensors", "b.safetensors", "c.safetensors"}}) {
    const auto store = open(files);
    ASSERT_TRUE(store.ok()) << to_string(store.error());
    for (const mesh::Placement& placement : placements) {
      for (int rank = 0; rank < 4; ++rank) {
        const at::Tensor wanted =
            placement.is_sharded() ? comm::take_shard(full, placement, rank, 4) : full;
        at::Tensor found = at::full_like(wanted, -1, at::MemoryFormat::Contiguous);
        ASSERT_TRUE(store.value().read_shard("w", {12, 4}, placement, rank, 4, found).ok());
        EXPECT_TRUE(at::equal(found, wanted)) << to_string(placement) << " rank " << rank;
      }
    }
  }
}

TEST_F(TensorStoreTest, ATensorWithoutDimsAndAnotherDtypeAreRead) {
  ASSERT_TRUE(
      write_safetensors((folder_ / "f.safetensors").string(),
                        {{"step", at::scalar_tensor(7.0F)}, {"w", numbers({3}, at::kBFloat16)}}, {})
          .ok());
  const auto store = open({"f.safetensors"});
  ASSERT_TRUE(store.ok());
  at::Tensor step = at::zeros({}), row = at::zeros({3});
  const auto whole = mesh::Placement::replicate();
  ASSERT_TRUE(store.value().read_shard("step", {}, whole, 0, 1, step).ok());
  ASSERT_TRUE(store.value().read_shard("w", {3}, whole, 0, 1, row).ok());
  EXPECT_EQ(step.item<float>(), 7.0F);
  EXPECT_TRUE(at::equal(row, at::arange(3, at::kFloat)));
}

TEST_F(TensorStoreTest, AReadNamesTheTensorThatIsMissingOrHasAnotherShape) {
  write_part("a.safetensors", numbers({2, 2}), {0, 0});
  const auto store = open({"a.safetensors"});
  ASSERT_TRUE(store.ok());
  at::Tensor out = at::zeros({2, 3});
  const auto read = [&](const std::string& name) {
    return to_string(
        store.value().read_shard(name, {2, 3}, mesh::Placement::replicate(), 0, 1, out).error());
  };
  EXPECT_THAT(read("v"), HasSubstr("there is no tensor v"));
  EXPECT_THAT(read("w"), HasSubstr("w has the shape [2,2], not [2,3]"));
}

TEST_F(TensorStoreTest, PartsThatOverlapOrLeaveAGapAreRefused) {
  write_part("a.safetensors", numbers({2, 2}), {0, 0});
  write_part("b.safetensors", numbers({2, 2}), {1, 0});
  write_part("c.safetensors", numbers({2, 2}), {4, 0});
  write_part("d.safetensors", numbers({2, 2}, at::kDouble), {2, 0});
  EXPECT_THAT(refusal({"a.safetensors", "b.safetensors"}), HasSubstr("parts of w overlap"));
  EXPECT_THAT(refusal({"a.safetensors", "c.safetensors"}), HasSubstr("parts of w are missing"));
  EXPECT_THAT(refusal({"a.safetensors", "d.safetensors"}), HasSubstr("d.safetensors: w differs"));
  // Copies of a part, as of a replicated tensor that every rank wrote, are no overlap.
  write_part("e.safetensors", numbers({2, 2}), {0, 0});
  EXPECT_EQ(refusal({"a.safetensors", "e.safetensors"}), "");
}

TEST_F(TensorStoreTest, HostileHeadersAreRefusedWithTheFile) {
  const std::string entry = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const struct {
    const char* file;
    std::string header;
    const char* complaint;
  } cases[] = {
      {"twice", R"({"w":)" + entry + R"(,"w":)" + entry + "}", "names the tensor \"w\" twice"},
      {"overlap", R"({"w":)" + entry + R"(,"v":)" + entry + "}", "its tensors overlap"},
      {"beyond", R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
       "its offsets are wrong"},
      {"shape", R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
       "does not fit its size"},
      {"huge",
       R"({"w":{"dtype":"F32","shape":[4611686018427387904,4611686018427387904],"data_offsets":[0,8]}})",
       "does not fit its size"},
      {"dtype", R"({"w":{"dtype":"F4","shape":[2],"data_offsets":[0,8]}})", "unknown dtype F4"},
      {"torch", R"({"w":{"dtype":"float32","shape":[999],"data_offsets":[0,8]}})",
       "unknown dtype float32"},
      {"json", "{", "its header is not JSON"},
      {"sharding",
       R"({"__metadata__":{"DCP_SHARDING_INFO":"{\"w\":{\"saved_offsets\":[-1]}}"},"w":)" + entry +
           "}",
       "its offsets are wrong"}};
  for (const auto& [file, header, complaint] : cases) {
    write_raw(file, header, 8);
    EXPECT_THAT(refusal({file}), testing::AllOf(HasSubstr(file), HasSubstr(complaint)));
  }
  std::ofstream(folder_ / "short", std::ios::binary) << "\xff\xff\xff\xff\xff\xff\xff\x7f{}";
  EXPECT_THAT(refusal({"short"}), HasSubstr("not a safetensors file"));
  EXPECT_THAT(refusal({"absent"}), HasSubstr("absent: cannot be read"));
}

// Two nodes may have different files under the same path.
TEST_F(TensorStoreTest, FingerprintsDifferWithTheContents) {
  write_part("a.safetensors", numbers({4096}), {0});
  const auto first = open({"a.safetensors"}).value().fingerprints();
  at::Tensor other = numbers({4096});
  other[2048] = -1;
  write_part("a.safetensors", other, {0});
  EXPECT_NE(open({"a.safetensors"}).value().fingerprints(), first);
}

// Fused layouts and transposed matrices of other programs; the sources are parts, too.
TEST_F(TensorStoreTest, ATensorIsMadeOfOthers) {
  const at::Tensor q = numbers({8, 6}), k = numbers({4, 6}) + 100, v = numbers({4, 6}) + 200;
  write_part("a.safetensors", q.narrow(1, 0, 2), {0, 0});
  write_part("b.safetensors", q.narrow(1, 2, 4), {0, 2});
  ASSERT_TRUE(write_safetensors((folder_ / "c.safetensors").string(),
                                {{"k", k},
                                 {"v", v},
                                 {"kt", k.t().contiguous()},
                                 {"wide", numbers({4, 7})},
                                 {"half", k.to(at::kHalf)},
                                 {"whole", k.to(at::kInt)},
                                 {"row", numbers({6})}},
                                {})
                  .ok());
  auto store = open({"a.safetensors", "b.safetensors", "c.safetensors"}).value();
  ASSERT_TRUE(store.define("qkv", {{"w", "k", "v"}}).ok());
  ASSERT_TRUE(store.define("untransposed", {{"kt"}, true}).ok());
  ASSERT_TRUE(store.define("both", {{"kt", "kt"}, true}).ok());
  ASSERT_TRUE(store.define("mixed", {{"half", "k"}}).ok());
  const std::vector<std::pair<std::string, at::Tensor>> wanted = {{"qkv", at::cat({q, k, v})},
                                                                  {"untransposed", k},
                                                                  {"both", at::cat({k, k})},
                                                                  {"mixed", at::cat({k, k})}};
  for (const auto& [name, full] : wanted) {
    ASSERT_EQ(store.shape_of(name), full.sizes().vec()) << name;
    const std::int64_t rows = full.size(0);
    const std::vector<mesh::Placement> placements = {
        mesh::Placement::replicate(), mesh::Placement::shard(0, {{rows / 2, 2}, {rows / 2, 1}}),
        mesh::Placement::shard(1, {{6, 2}})};
    for (const mesh::Placement& placement : placements) {
      for (int rank = 0; rank < 2; ++rank) {
        const at::Tensor shard =
            placement.is_sharded() ? comm::take_shard(full, placement, rank, 2) : full;
        at::Tensor found = at::full_like(shard, -1, at::MemoryFormat::Contiguous);
        ASSERT_TRUE(store.read_shard(name, full.sizes().vec(), placement, rank, 2, found).ok());
        EXPECT_TRUE(at::equal(found, shard)) << name << " " << to_string(placement);
      }
    }
  }
  for (const auto& [of, message] : std::vector<std::pair<TensorStore::Joined, std::string>>{
           {{{"w", "nothing"}}, "no tensor nothing"},
           {{{"w", "wide"}}, "wide does not fit w"},
           {{{"whole"}}, "whole holds whole numbers"},
           {{{"row"}, true}, "row is not a matrix"}}) {
    const auto status = store.define("bad", of);
    ASSERT_FALSE(status.ok()) << message;
    EXPECT_THAT(to_string(status.error()), HasSubstr(message));
  }
  EXPECT_EQ(store.shape_of("bad"), std::nullopt);
}

}  // namespace
}  // namespace tt::checkpoint
