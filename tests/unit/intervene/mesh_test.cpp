// Programs over made-up tensors: on every tensor axis the bits of one rank.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/intervene/made_up_forward.h"

namespace tt::intervene {
namespace {

// Every kind of place, operator and subscript; reads and writes of one, several and other places.
const std::vector<std::string> kPrograms = {
    "layers[2].output = layers[2].output + 0.5 * vector(\"evil\")[2]",
    "h = layers[2].output\nlayers[2].output = h - (h @ vector(\"evil\")[2])[..., None] * "
    "vector(\"evil\")[2]",
    "layers[2].output *= 1.5",
    "layers[1].mlp.activation = layers[1].mlp.activation.clamp(-0.5, 0.5)",
    "layers[1].mlp.activation = layers[1].mlp.activation.relu() * 2 - 1",
    "layers[1].mlp.activation = layers[1].mlp.activation.tanh()",
    "layers[1].mlp.activation[..., 77] = 0.0",
    "layers[1].mlp.activation[..., 60:90] = 0.25",
    "layers[1].mlp.activation[:, -1, [3, 100, 5]] = 1.0",
    "a = layers[1].mlp.activation\nlayers[1].mlp.activation[..., 77] = a.mean(-1)",
    "a = layers[1].mlp.activation\nlayers[1].mlp.activation = a - a.mean(-1, keepdim=True)",
    "layers[3].mlp.fc1 = layers[3].mlp.fc1.abs().sqrt()",
    "layers[3].mlp.fc1 = -layers[3].mlp.fc1",
    "layers[1].attention.context.heads[3] = 0.0",
    "layers[1].attention.context.heads[[0, 6]] = 1.0",
    "layers[1].attention.context.heads[2:5] = "
    "layers[1].attention.context.heads[2:5].mean(dim=1, keepdim=True)",
    "layers[1].attention.context.heads[3][:, -1] = layers[1].attention.context.heads[4][:, 0]",
    "layers[2].attention.query = layers[2].attention.query * 0.9",
    "layers[2].attention.key = layers[2].attention.key.softmax(-1)",
    "layers[2].attention.value = layers[2].attention.value + layers[2].attention.key",
    "layers[2].attention.qkv = layers[2].attention.qkv.sign()",
    "layers[2].attention.value.heads[0] = 0.0",
    "layers[2].output[1] = layers[2].output[3]",
    "layers[2].attention.output[1, 2] = layers[2].attention.output[0, 4]",
    "layers[3].output = layers[2].output",
    "layers[3].mlp.output = layers[2].output + layers[1].mlp.output",
    "layers[3].output = layers[1].mlp.activation[..., :64] + layers[3].output",
    "layers[1].mlp.activation = layers[1].mlp.activation * (layers[1].mid @ "
    "vector(\"evil\")[1] > 0)[..., None]",
    "if layers[1].mlp.activation > 0.5: layers[1].mlp.activation = 0.5",
    "if (layers[2].output @ vector(\"evil\")[2] > 0)[..., None]: layers[2].output = 0.0",
    "if layers[2].output.mean() > -100: layers[2].output *= 2",
    "if (layers[1].mid.norm(dim=-1) > 8)[..., None]: layers[1].mlp.activation *= 0.5",
    "layers[2].output = layers[2].output + 0.1 * noise(layers[2].output)",
    "layers[1].mlp.activation = layers[1].mlp.activation * "
    "(1 + 0.1 * (2 * noise(layers[1].mlp.activation, \"uniform\") - 1))",
    "layers[2].attention.key += 0.1 * noise(layers[2].attention.key, seed=3)",
    "layers[1].mlp.fc1.weight += 0.1 * noise(layers[1].mlp.fc1.weight)",
    "layers[1].attention.proj.weight *= 0.5",
    "layers[1].mlp.fc2.weight = layers[1].mlp.fc2.weight - layers[1].mlp.fc2.weight.mean()",
    "layers[2].attention.qkv.weight += 0.1 * noise(layers[2].attention.qkv.weight, \"uniform\")",
    "output_layer.weight = output_layer.weight * 2",
    "logits[..., 7] = -1e4",
    "logits = logits.log_softmax(-1)",
    "embedding.output = embedding.output * (tokens % 3 == 0)[..., None]",
    "final_norm.output = final_norm.output / final_norm.output.norm(dim=-1, keepdim=True)",
    "layers[2].output.grad = 0.5 * layers[2].output.grad",
    "layers[1].mlp.activation.grad = layers[1].mlp.activation.grad.clamp(-0.1, 0.1)",
    "layers[2].attention.key.grad = layers[2].attention.key.grad.abs()",
    "layers[2].attention.value.grad *= 0.5",
    "g = layers[2].output.grad\nlayers[2].output.grad = g - g.mean(-1, keepdim=True)",
    "layers[1].output.grad = layers[1].output.grad * layers[1].output",
    "layers[layer].output += 0.1 * layer * vector(\"evil\")[layer]\nwhen(layers=\"1-2\")",
    "layers[layer].mlp.output = 0.0\nwhen(rows=\"1-2\", tokens=\"0,-1\")",
    "layers[1].mlp.activation = 0.0\nwhen(tokens=\"2\")",
    "x = file(\"clean.safetensors\")[\"resid\"]\nlayers[2].output[0] = x",
    "layers[2].mid = layers[2].mid.cumsum(1) / 3",
    "m = layers[1].mid.mean(-1, keepdim=True)\nlayers[1].mlp.activation *= m",
    "a = layers[1].attention.scores\nlayers[1].attention.output *= a[:, 0, :, :1]",
    "h = layers[1].output\nlayers[1].output = h * 2\nlayers[2].output = h + layers[1].output",
    "layers[1].output[:, 2:4, 10:20] += 1.0",
    "layers[1].output[..., [1, 5]] *= -1",
    "alpha = param(0.5, min=0.0, max=1.0)\nlayers[1].mlp.activation = "
    "(1 - alpha) * layers[1].mlp.activation + alpha * layers[1].mlp.activation.relu()",
    "save(layers[1].mlp.activation, \"before\", send=False)\n"
    "layers[1].mlp.activation = 0.5 * saved(\"before\")",
    "save(layers[2].output[3], \"row\", send=False)\nlayers[2].output[1] = saved(\"row\")"};

void expect_same(const MadeUp& whole, const MadeUp& cut, const std::string& what) {
  ASSERT_EQ(whole.size(), cut.size()) << what;
  for (const auto& [place, tensor] : whole) {
    if (place == "messages") continue;
    const at::Tensor& other = cut.at(place);
    ASSERT_EQ(tensor.sizes(), other.sizes()) << what << "\n" << place;
    EXPECT_TRUE(same_bits(tensor, other))
        << what << "\n"
        << place << " differs by " << (tensor - other).abs().max().item<double>();
  }
}

// One test for each program: ctest runs them side by side.
class ProgramsOnRanks : public testing::TestWithParam<std::string> {};

TEST_P(ProgramsOnRanks, GiveTheBitsOfOneRankOnEveryTensorAxis) {
  const std::string& program = GetParam();
  for (const std::int64_t groups : {8, 2, 1}) {
    const std::vector<int> cut = groups == 1 ? std::vector{4} : std::vector{2, 4, 8};
    const MadeUp whole = forward_and_backward(1, groups, program, at::kFloat);
    EXPECT_FALSE(whole.at("positions").equal(at::zeros({}, at::kLong))) << program;
    for (const int ranks : cut) {
      expect_same(whole, forward_and_backward(ranks, groups, program, at::kFloat),
                  program + "\non " + std::to_string(ranks) + " ranks");
    }
  }
}

TEST_P(ProgramsOnRanks, GiveTheBitsOfOneRankInOtherDtypes) {
  for (const at::ScalarType dtype : {at::kDouble, at::kBFloat16}) {
    expect_same(forward_and_backward(1, 2, GetParam(), dtype),
                forward_and_backward(4, 2, GetParam(), dtype), GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, ProgramsOnRanks, testing::ValuesIn(kPrograms),
                         [](const testing::TestParamInfo<std::string>& tested) {
                           return std::to_string(tested.index);
                         });

// As users find them; what needs a prompt's forward or rows of a file is given those of the test.
std::map<std::string, std::string> ready_made() {
  const std::string folder = std::string(TT_DOCS_DIR) + "/../configs/interventions";
  std::map<std::string, std::string> programs;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".tti") continue;
    std::ifstream file(entry.path());
    std::string text{std::istreambuf_iterator<char>(file), {}};
    for (const auto& [from, to] : {std::pair("when(prompts=\"*\")\n", ""),
                                   std::pair("output[:, -1] = file", "output[0] = file")})
      if (const auto at = text.find(from); at != std::string::npos)
        text.replace(at, std::string_view(from).size(), to);
    programs[entry.path().stem()] = text;
  }
  return programs;
}

TEST(Programs, ThatAreReadyMadeGiveTheBitsOfOneRankToo) {
  const auto programs = ready_made();
  ASSERT_GE(programs.size(), 25U);
  std::size_t written = 0;
  for (const auto& [name, program] : programs) {
    const MadeUp whole = forward_and_backward(1, 8, program, at::kFloat);
    written += whole.at("positions").equal(at::zeros({}, at::kLong)) ? 0 : 1;
    for (const int ranks : {2, 4, 8}) {
      expect_same(whole, forward_and_backward(ranks, 8, program, at::kFloat),
                  name + "\non " + std::to_string(ranks) + " ranks");
    }
  }
  // All but those that save, or wait for a pass before.
  EXPECT_GE(written, programs.size() - 3);
}

TEST(Programs, ChangeSomethingOrTheTestAboveSeesNothing) {
  const MadeUp idle = forward_and_backward(1, 8, "", at::kFloat);
  for (const std::string& program : kPrograms) {
    const MadeUp changed = forward_and_backward(1, 8, program, at::kFloat);
    bool is_changed = false;
    for (const auto& [place, tensor] : idle)
      if (place != "positions" && place != "messages")
        is_changed = is_changed || !same_bits(tensor, changed.at(place));
    EXPECT_TRUE(is_changed) << program;
  }
}

// What acts on each number alone needs no message, not even to be counted.
TEST(Programs, OnShardsSendNothing) {
  const std::string activation = "layers[1].mlp.activation";
  for (const std::string& program :
       {activation + " = " + activation + ".relu() * 2 - 1",
        activation + " = " + activation + ".clamp(-0.5, 0.5)\nwhen(rows=\"1-2\", tokens=\"0,-1\")",
        activation + "[..., 60:90] = 0.25", "if " + activation + " > 0.5: " + activation + " = 0.5",
        "if " + activation + " > 0.5: " + activation + " *= 0.5\nwhen(tokens=\"-1\")",
        activation + ".grad = " + activation + ".grad.clamp(-0.1, 0.1)",
        std::string("layers[2].output = layers[2].output + 0.5 * vector(\"evil\")[2]")}) {
    const MadeUp made = forward_and_backward(4, 8, program, at::kFloat);
    EXPECT_EQ(made.at("messages").item<std::int64_t>(), 0) << program;
    EXPECT_GT(made.at("positions").item<std::int64_t>(), 0) << program;
  }
  const MadeUp gathered = forward_and_backward(
      4, 8, activation + " = " + activation + " - " + activation + ".mean(-1, keepdim=True)",
      at::kFloat);
  EXPECT_GT(gathered.at("messages").item<std::int64_t>(), 0);
}

}  // namespace
}  // namespace tt::intervene
