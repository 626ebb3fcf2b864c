// Broken programs give an answer: never an exception, a crash or an endless loop.
#include <gtest/gtest.h>

#include <ctime>
#include <random>

#include "tensor_tracer/graph/json.h"
#include "tests/unit/graph/samples.h"

namespace tt::graph {
namespace {

using nlohmann::json;

constexpr unsigned kSeeds = 4;
constexpr int kMutations = 2'500;  // with each seed

std::string mutate_text(std::string text, std::mt19937& random) {
  constexpr std::string_view kPieces[] = {"layers[layer]",
                                          ".output",
                                          ".grad",
                                          ".heads[1]",
                                          "[:, -1]",
                                          "if h: ",
                                          "save(h, \"x\")",
                                          "\n",
                                          "= ",
                                          "+= ",
                                          "(",
                                          ")",
                                          "[",
                                          "]",
                                          "h",
                                          "12",
                                          "-",
                                          ":",
                                          "when(steps=\"1-\")",
                                          "vector(\"v\")",
                                          "[layer]",
                                          "saved(\"x\")",
                                          "noise(h)",
                                          ",",
                                          "param(1)",
                                          "#",
                                          "\"",
                                          "\xFF"};
  const auto pick = [&](std::size_t count) { return std::size_t{random()} % count; };
  for (std::size_t edits = 1 + pick(3); edits > 0 && !text.empty(); --edits) {
    const std::size_t at = pick(text.size());
    switch (pick(4)) {
      case 0:
        text.erase(at, 1 + pick(8));
        break;
      case 1:
        text.resize(at);
        break;
      case 2:
        text.insert(at, text.substr(pick(text.size()), pick(30)));
        break;
      default:
        text.insert(at, kPieces[pick(std::size(kPieces))]);
        break;
    }
  }
  return text;
}

// One value somewhere inside is replaced, removed or doubled.
void mutate_json(json& value, std::mt19937& random) {
  const json pieces[] = {nullptr,
                         true,
                         -1,
                         3,
                         1e300,
                         "1",
                         "layer+1",
                         "x",
                         "__",
                         "",
                         json::array(),
                         json::object(),
                         {{"node", "1"}},
                         {{"node", "2"}},
                         {{"list", {1, {{"node", "3"}}}}},
                         {{"slice", {nullptr, 1, nullptr}}},
                         {{"name", "layer"}},
                         {{"string", "\n\""}},
                         18446744073709551615U};
  if (value.is_structured() && !value.empty() && random() % 8 != 0) {
    auto at = value.begin();
    std::advance(at, random() % value.size());
    if (random() % 10 == 0 && value.is_array())
      value.push_back(json(*at));
    else if (random() % 20 == 0)
      value.erase(at);
    else
      mutate_json(*at, random);
    return;
  }
  value = pieces[random() % std::size(pieces)];
}

// What is taken comes back from its graph, and from the graph's text.
void check_sound(const Program& program, const std::string& from) {
  const json graph = to_json(program);
  const auto read = read_program(graph, test_model());
  ASSERT_TRUE(read.ok()) << from << "\n--\n" << graph << "\n" << read.error().message;
  EXPECT_EQ(to_json(read.value()), graph) << from;
  const std::string text = read.value().ast().source();
  const auto again = parse_program(text, test_model());
  ASSERT_TRUE(again.ok()) << from << "\n--\n" << text << "\n" << again.error().message;
  EXPECT_EQ(to_json(again.value()), graph) << from << "\n--\n" << text;
  for (const Effect& effect : program.effects) is_identity(program, effect, {});
}

// A part for each seed, so that processes that share the tests take equally long.
class GraphMutation : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Seeds, GraphMutation, testing::Range(1U, 1U + kSeeds));

TEST_P(GraphMutation, EveryTextGivesAProgramOrAnError) {
  std::mt19937 random(GetParam());
  int sound = 0;
  for (int i = 0; i < kMutations; ++i) {
    const auto sample = kSamples[static_cast<std::size_t>(i) % std::size(kSamples)];
    const std::string text = mutate_text(std::string(sample), random);
    const auto program = parse_program(text, test_model());
    if (program.ok()) {
      ++sound;
      check_sound(program.value(), text);
    } else {
      EXPECT_EQ(program.error().code, "invalid_expression") << text;
      EXPECT_NE(program.error().message.find("\n  "), std::string::npos) << text;
    }
  }
  EXPECT_GT(sound, kMutations / 50);
  EXPECT_LT(sound, kMutations / 2);
}

TEST_P(GraphMutation, EveryGraphGivesAProgramOrAnError) {
  std::vector<json> graphs;
  for (const std::string_view sample : kSamples)
    graphs.push_back(to_json(parse_program(sample, test_model()).value()));
  std::mt19937 random(kSeeds + GetParam());
  int sound = 0;
  for (int i = 0; i < kMutations; ++i) {
    json graph = graphs[static_cast<std::size_t>(i) % graphs.size()];
    for (auto edits = 1 + random() % 2; edits > 0; --edits) mutate_json(graph["nodes"], random);
    const auto program = read_program(graph, test_model());
    if (program.ok()) {
      ++sound;
      check_sound(program.value(), graph.dump());
    } else {
      EXPECT_FALSE(program.error().message.empty());
    }
  }
  EXPECT_GT(sound, kMutations / 100);
  EXPECT_LT(sound, kMutations / 2);
}

// CPU time, which does not grow when others use the machine.
template <typename Work>
double milliseconds_of(const Work& work) {
  const std::clock_t start = std::clock();
  work();
  return 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

double milliseconds_to_refuse(const json& text_or_graph) {
  return milliseconds_of([&] { EXPECT_FALSE(read_program(text_or_graph, test_model()).ok()); });
}

// What is large is refused in the time of this many readings of something sound of a like size:
// what grows as a power of the size takes far more, and a sanitizer slows both.
constexpr double kSoon = 20.0;

TEST(GraphHostile, LargeTextsAreRefusedSoon) {
  std::string sound;
  for (int i = 0; i < 99; ++i)
    sound += "layers[1].output += layers[1].mid * 2 # the most effects\n";
  const double soon =
      kSoon * milliseconds_of([&] { EXPECT_TRUE(read_program(sound, test_model()).ok()); });

  std::string names;
  for (int i = 0; i < 199; ++i)
    names += "a" + std::to_string(i) + " = [a" + std::to_string(i) + "]\n";
  std::string lists = "b0 = [1, 1]\n";
  for (int i = 1; i < 199; ++i) {
    const std::string last = "b" + std::to_string(i - 1);
    lists += "b" + std::to_string(i) + " = [" + last + ", " + last + "]\n";
  }
  std::string writes;
  for (int i = 0; i < 199; ++i) writes += "layers[layer].output += layers[layer].mid * layer\n";
  EXPECT_LT(milliseconds_to_refuse(names), soon);
  EXPECT_LT(milliseconds_to_refuse(lists), soon);
  EXPECT_LT(milliseconds_to_refuse(std::string(16384, '(')), soon);
  EXPECT_LT(milliseconds_to_refuse(std::string(1 << 20, 'x')), soon);
  EXPECT_LT(milliseconds_to_refuse(writes), soon);
}

TEST(GraphHostile, LargeGraphsAreRefusedSoon) {
  json nodes = {{{"id", "0"}, {"type", "getter"}, {"point", "Logits"}}};
  for (int i = 1; i < 4000; ++i) {
    const json last = {{"node", std::to_string(i - 1)}};
    nodes.push_back({{"id", std::to_string(i)},
                     {"type", "operator"},
                     {"operator", "stack"},
                     {"arguments", {{{"list", {last, last, last}}}}}});
  }
  json graph = {{"version", 1}, {"nodes", nodes}};
  const std::string text = graph.dump();
  const double soon =
      kSoon * milliseconds_of([&] { EXPECT_EQ(json::parse(text).size(), graph.size()); });
  EXPECT_LT(milliseconds_to_refuse(graph), soon);
  graph["nodes"][0] = {
      {"id", "0"}, {"type", "operator"}, {"operator", "neg"}, {"arguments", {{{"node", "3999"}}}}};
  EXPECT_LT(milliseconds_to_refuse(graph), soon);
}

}  // namespace
}  // namespace tt::graph
