#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/graph/samples.h"

namespace tt::graph {
namespace {

using testing::HasSubstr;

struct Case {
  const char* text;
  const char* message;  // with the line and the caret
  const char* remedy;
};

std::string error_of(std::string_view text) {
  const auto program = parse_program(text, test_model());
  return program.ok() ? "" : program.error().message;
}

constexpr Case kWrong[] = {
    {"layers[12].output = layers[20].output",
     "layers[20].output is computed after layers[12].output, which this line writes (line 1, "
     "column 21)\n"
     "  layers[12].output = layers[20].output\n"
     "                      ^~~~~~~~~~~~~~~~~",
     "write a place that is met before"},
    {"layers[12].mid = 1 + layers[12].mlp.output",
     "layers[12].mlp.output is computed after layers[12].mid", ""},
    {"layers[12].attention.query = layers[12].attention.key",
     "layers[12].attention.key is computed after layers[12].attention.query", ""},
    {"embedding.output = layers[1].mid", "layers[1].mid is computed after embedding.output", ""},
    {"layers[24].output = final_norm.output", "is computed after layers[24].output", ""},
    {"final_norm.output *= logits.mean()", "logits is computed after final_norm.output", ""},
    {"h = layers[20].output.mean()\nk = h * 2\nlayers[12].output *= 1 + k",
     "\"k\" reads layers[20].output, which is computed after layers[12].output, which this line "
     "writes (line 3, column 26)\n"
     "  layers[12].output *= 1 + k\n"
     "                           ^",
     "saved(\"name\")"},
    {"if logits.mean() > 0: layers[3].output = 0", "logits is computed after layers[3].output", ""},
    {"when(layers=\"3-5\")\nlayers[layer].output = layers[layer + 1].mid",
     "layers[4].mid is computed after layers[3].output", ""},
    {"when(layers=\"3-5\")\nlayers[5].output = layers[layer].output + layers[layer + 1].output",
     "layers[6].output is computed after layers[5].output", ""},
    {"layers[3].output = layers[2].output.grad",
     "layers[2].output.grad is known only in the backward pass", "saved(\"name\")"},
    {"g = layers[2].output.grad\nlayers[3].output = g",
     "\"g\" reads layers[2].output.grad, which is known only in the backward pass", ""},
    {"layers[3].output.grad = layers[2].output.grad",
     "layers[2].output.grad is computed after layers[3].output.grad", "the backward pass goes"},
    {"if layers[5].output.mean() > 0: skip(layers[5])",
     "layers[5].output is computed after the input of layers[5], where it is decided", ""},
    {"if layers[1].attention.qkv.mean() > 0: skip(layers[1])",
     "layers[1].attention.qkv is computed after the input of layers[1]", ""},
    {"if layers[1].output.grad.mean() > 0: skip(layers[5])", "known only in the backward pass", ""},
    {"skip(layers[5])\nlayers[5].mlp.output = 0",
     "layers[5].mlp.output would be written for nothing: layer 5 is skipped (line 2, column 1)\n"
     "  layers[5].mlp.output = 0\n"
     "  ^~~~~~~~~~~~~~~~~~~~~~~~",
     "layers[5].output"},
    {"save(layers[5].mid, \"x\")\nskip(layers[5])",
     "layers[5].mid is not there: layer 5 is skipped (line 1, column 6)", ""},
    {"skip(layers[5])\nx = layers[5].mlp.fc1.grad", "layer 5 is skipped", ""},
    {"when(layers=\"3-5\")\nskip(layers[layer])\nlayers[4].mid = 0", "layer 4 is skipped", ""},
    {"when(layers=\"3-5\")\nskip(layers[4])\nlayers[layer].mid = 0", "layer 4 is skipped", ""},
    {"when(phase=\"eval\")\nsave(layers[3].output.grad, \"x\")",
     "there are gradients in training only", "phase=\"train\""},
    {"when(prompts=\"probes\")\nlayers[3].output.grad = 0", "in training only", ""},
};

TEST(Order, WhatComesTooLateIsRefused) {
  for (const Case& c : kWrong) {
    const auto program = parse_program(c.text, test_model());
    ASSERT_FALSE(program.ok()) << c.text;
    EXPECT_THAT(program.error().message, HasSubstr(c.message)) << c.text;
    EXPECT_THAT(program.error().remedy, HasSubstr(c.remedy)) << c.text;
  }
}

TEST(Order, WhatComesBeforeOrAtTheSameTimeIsTaken) {
  for (const char* text :
       {"layers[12].output = layers[12].output + layers[11].output + embedding.output",
        "layers[12].output = layers[12].mlp.output + tokens.mean()",
        "layers[3].output.grad = layers[3].output.grad + layers[4].output.grad + logits.mean()",
        "embedding.output.grad = layers[1].mid.grad", "logits = layers[20].output.mean()",
        "if layers[4].output.mean() > 0: skip(layers[5])",
        "if embedding.output.mean() > 0: skip(layers[1])",
        "if logits.mean() > 0: save(layers[2].output, \"x\")",
        "layers[2].output = saved(\"x\")\nsave(logits.mean(), \"x\")",
        "layers[2].output = noise(layers[20].output)",
        "skip(layers[5])\nlayers[5].output += layers[4].mid + layers[5].input",
        "if layers[1].output.mean() > 0: skip(layers[5])\nlayers[5].mid = 0",
        "unused = layers[20].output\nlayers[2].output = 0",
        "layers[1].mlp.fc1.weight = 0 * embedding.output.mean()"})
    EXPECT_EQ(error_of(text), "") << text;
}

TEST(Order, EffectsAreCountedForEveryLayer) {
  const auto lines = [](std::size_t count, const std::string& line) {
    std::string text = "when(layers=\"1-10\")\nsave(layer, \"x\")\n";
    for (std::size_t i = 0; i < count; ++i) text += line + "\n";
    return text;
  };
  EXPECT_EQ(error_of(lines(9, "layers[layer].output *= 2")), "");
  EXPECT_THAT(error_of(lines(10, "layers[layer].output *= 2")),
              HasSubstr("with this line there are 110 writes, saves and skips, the limit is 100 "
                        "(line 12, column 1)"));
  EXPECT_EQ(error_of(lines(90, "logits *= 2")), "");
  EXPECT_THAT(error_of(lines(91, "logits *= 2")), HasSubstr("there are 101 writes"));
  EXPECT_THAT(error_of(lines(10, "logits *= layer")), HasSubstr("there are 110 writes"));
}

}  // namespace
}  // namespace tt::graph
