#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/graph/samples.h"

namespace tt::graph {
namespace {

using testing::HasSubstr;

struct Case {
  const char* text;
  const char* where;
  const char* message;
  const char* remedy;
};

constexpr Case kCases[] = {
    // Places.
    {"layers[0].output = 0", "line 1, column 8", "layers count from 1 to 24; the embedding is",
     "1 to 24"},
    {"layers[25].output = 0", "line 1, column 8", "there is no layer 25, the model has 24", "24"},
    {"layers[-1].output = 0", "line 1, column 8", "layers count from 1 to 24", "1 to 24"},
    {"layers[1:3].output = 0", "line 1, column 8", "one number, or layer", "layers[layer]"},
    {"layers[1, 2].output = 0", "line 1, column 8", "one number, or layer", ""},
    {"layers[layer * 2].output = 0", "line 1, column 8", "one number, or layer", ""},
    {"layers[layer + 99].output = 0", "line 1, column 8", "only 24 layers", ""},
    {"layers[layer - 1].output = 0", "line 1, column 1", "where layer is 1 this would be layer 0",
     "when(layers=\"2-24\")"},
    {"x = layers[layer + 2].mid\nlogits = 1", "line 1, column 5", "this would be layer 25",
     "\"1-22\""},
    {"layers[layer].input = 0", "line 1, column 1", "would be the embedding for layer 1",
     "layers[layer - 1].output"},
    {"x = layers[layer + 2].input", "line 1, column 5", "", "layers[layer + 1].output"},
    {"layers[12].ouput = 0", "line 1, column 12",
     "layers[12] has no \"ouput\", did you mean \"output\"?",
     "input_norm, attention, mid, mlp_norm, mlp, output"},
    {"layers[12].HidenStates = 0", "line 1, column 12", "did you mean \"HiddenStates\"?", ""},
    {"layers[12].attention.querry = 0", "line 1, column 22", "did you mean \"query\"?", "scores"},
    {"layers[12].attention = 0", "line 1, column 1", "layers[12].attention is not a value", "qkv"},
    {"x = layers[12]", "line 1, column 5", "layers[12] is not a value",
     "input, input_norm, attention"},
    {"x = layers", "line 1, column 5", "layers needs the number of a layer", "layers[12].output"},
    {"x = layers.output", "line 1, column 5", "layers needs the number of a layer", ""},
    {"layer[12].output = 0", "line 1, column 1", "did you mean \"layers\"?", "layers[12].output"},
    {"x = embedding", "line 1, column 5", "embedding is not a value", "output"},
    {"embedding.weight = 0", "line 1, column 11", "embedding has no \"weight\"", "output"},
    {"save(layers[3].lens, \"x\")", "line 1, column 6", "computed only for the trace plan",
     "compute it here: made"},
    {"save(layers[3].LogitLens, \"x\")", "line 1, column 6", "computed only for the trace plan",
     ""},
    {"save(final_norm(), \"x\")", "line 1, column 6", "", "final_norm(layers[12].output)"},
    {"save(output_layer(logits, 2), \"x\")", "line 1, column 27", "",
     "output_layer(layers[12].output)"},
    {"layers[3].output = final_norm(layers[4].output)", "line 1, column 20",
     "final_norm(...)\" reads layers[4].output, which is computed after layers[3].output", ""},
    {"final_norm = 3\nlogits = 1", "line 1, column 1", "", ""},
    {"MLP2 = 0", "line 1, column 1", "MLP2 is a place of every layer", "layers[12].MLP2"},
    {"x = MLP2.mean()", "line 1, column 5", "MLP2 is a place of every layer", ""},
    {"x = layres[12].output", "line 1, column 5",
     "there is no \"layres\", did you mean \"layers\"?", ""},
    {"x = logit.mean()", "line 1, column 5", "did you mean \"logits\"?", ""},
    {"layers[2].attention.output.heads[1] = 0", "line 1, column 28", "is not divided into heads",
     "attention.context"},
    {"x = layers[2].Query.heads", "line 1, column 21", "heads needs numbers", ".heads[3]"},
    {"x = layers[2].Query.heads[1, 2]", "line 1, column 27", "does not name heads", "[[0, 2]]"},
    {"x = layers[2].Query.heads[alpha]", "line 1, column 27", "does not name heads", ""},
    {"x = layers[2].mlp.fc1.weight.grad", "line 1, column 30", "has no gradient here", "optimizer"},
    {"x = tokens.grad", "line 1, column 12", "tokens has no gradient here", ""},
    {"h = logits\nx = h.grad", "line 2, column 7", "only a place has \"grad\"", ""},
    {"h = logits\nx = h.heads[1]", "line 2, column 7", "only a place has \"heads\"", ""},
    // Writes.
    {"tokens = 0", "line 1, column 1", "tokens are read only", "embedding.output"},
    {"layers[2].attention.scores = 0", "line 1, column 1", "is read only: it is computed once more",
     "attention.query"},
    {"logits[logits > 0] = 0", "line 1, column 8", "this part cannot be written", "if mask:"},
    {"logits[None] = 0", "line 1, column 8", "this part cannot be written", ""},
    {"logits[[0, 1], [0, 1]] = 0", "line 1, column 8", "this part cannot be written", "one list"},
    {"logits[[]] = 0", "line 1, column 8", "this part cannot be written", ""},
    {"logits[..., ...] = 0", "line 1, column 8", "this part cannot be written", ""},
    {"logits[1.5] = 0", "line 1, column 8", "this part cannot be written", ""},
    {"logits[0][1] = 0", "line 1, column 1", "only a place or a part of it", "logits = ..."},
    {"logits.mean() = 0", "line 1, column 1", "only a place or a part of it", ""},
    {"h = logits\nh[0] = 1", "line 2, column 1", "only a name or a place", "name = ..."},
    {"3 = logits", "line 1, column 1", "only a name or a place", ""},
    // Names.
    {"vector = 1", "line 1, column 1", "\"vector\" stands for itself", "another name"},
    {"layer = 1", "line 1, column 1", "\"layer\" stands for itself", ""},
    {"pi = 1", "line 1, column 1", "\"pi\" stands for itself", ""},
    {"layers = 1", "line 1, column 1", "\"layers\" stands for itself", "layers[12].output = ..."},
    {"a = 1\na = 2", "line 2, column 1", "\"a\" has a value already, from line 1", "another one"},
    {"a = param(1)\na += 2", "line 2, column 1", "\"a\" has a value already", ""},
    {"a = b\nb = 1", "line 1, column 5", "\"b\" is not there yet: line 2 gives it",
     "move that line up"},
    {"a = a + 1", "line 1, column 5", "the line that gives \"a\" uses it", "saved(\"name\")"},
    {"alpha = 1\nlogits = alhpa", "line 2, column 10", "did you mean \"alpha\"?",
     "on a line above"},
    {"x = vector", "line 1, column 5", "\"vector\" is called with parentheses", ""},
    // Calls.
    {"x = vector(\"v\")", "line 1, column 5", "a vector has a row for every layer", "[12]"},
    {"x = vector(\"v\")[25]", "line 1, column 17", "there is no layer 25", "0 to 24"},
    {"x = vector(\"v\")[-1]", "line 1, column 17", "rows of a vector count from 0", "0 to 24"},
    {"x = vector(\"v\")[1, 2]", "line 1, column 17", "one number, or layer", "vector(\"v\")[12]"},
    {"x = vector(3)[1]", "line 1, column 12", "a vector's name is a string", "quotes"},
    {"x = vector(\"\")[1]", "line 1, column 12", "a vector's name is empty", ""},
    {"x = vektor(\"v\")[1]", "line 1, column 5", "did you mean \"vector\"?", ""},
    {"x = file(\"f\")", "line 1, column 5", "a file has several tensors", "[\"resid\"]"},
    {"x = file(\"../f\")[\"t\"]", "line 1, column 10", "is not the plain name of a file",
     "the folder of --intervention-files"},
    {"logits[:, ::-1] = 0", "line 1, column 11", "the step of a slice is positive", ""},
    {"logits[::0] = 0", "line 1, column 8", "the step of a slice is positive", ""},
    {"layers[3].attention.context.heads[::-1] = 0", "line 1, column 35",
     "the step of a slice is positive", ""},
    {"x = file(\".f\")[\"t\"]", "line 1, column 10", "is not the plain name", ""},
    {"x = file(\"f\")[0]", "line 1, column 15", "a tensor's name is a string", ""},
    {"x = saved(\"y\")\nsave(x, \"z\")", "line 1, column 5", "no line saves \"y\"",
     "save(..., \"y\")"},
    {"save(1 + saved(\"a\"), \"a\")", "line 1, column 10", "\"a\" is never kept", "without it"},
    {"x = saved(\"b\")\nsave(x, \"a\")\nsave(saved(\"a\"), \"b\")", "line 1, column 5",
     "\"b\" is never kept", ""},
    {"if saved(\"a\") > 0: save(1, \"a\")", "line 1, column 4", "\"a\" is never kept", ""},
    {"x = saved()", "line 1, column 5", "saved() needs \"name\"", "saved(\"name\")"},
    {"x = noise(3)", "line 1, column 11", "the shape of a whole place", ""},
    {"x = noise(logits.mean())", "line 1, column 11", "the shape of a whole place", ""},
    {"x = noise(logits.grad)", "line 1, column 11", "the shape of a whole place", ""},
    {"x = noise(logits, \"gauss\")", "line 1, column 19", "\"normal\" or \"uniform\"", ""},
    {"x = noise(logits, seed=-1)", "line 1, column 24", "a whole number from 0", "seed=1"},
    {"x = noise(logits, sed=1)", "line 1, column 19", "has no \"sed\", did you mean \"seed\"?", ""},
    {"x = noise(logits, \"normal\", 3)", "line 1, column 29", "no more arguments without a name",
     ""},
    {"x = noise(logits, \"normal\", distribution=\"normal\")", "line 1, column 29", "given twice",
     ""},
    {"x = 1 + save(logits, \"x\")", "line 1, column 9", "does not stand inside", "separate line"},
    {"x = 1 + param(1)", "line 1, column 9", "does not stand inside", ""},
    {"x = logits(3)", "line 1, column 5", "\"logits\" is not called", ""},
    {"x = f(1)(2)", "line 1, column 5", "no operator that could be called", ""},
    {"x = layers[3].output.grad()", "line 1, column 5", "no operator that could be called", ""},
    {"x = torch.save(logits)", "line 1, column 11", "torch has no operator \"save\"",
     "docs/expressions.md"},
    {"x = torch.vektor(\"v\")[1]", "line 1, column 5", "did you mean \"vector\"?", ""},
    {"save(logits)", "line 1, column 1", "save() needs \"name\"", "save(value, \"name\")"},
    {"save(logits, x)", "line 1, column 14", "a save's name is a string", ""},
    {"save(logits, \"x\", send=1)", "line 1, column 24", "send is True or False", "send=False"},
    {"save(logits, \"x\")\nsave(tokens, \"x\")", "line 2, column 14",
     "a save of the name \"x\" already", ""},
    {"skip(layers[3].output)", "line 1, column 6", "only a layer can be skipped",
     "skip(layers[5])"},
    {"skip(3)", "line 1, column 6", "only a layer can be skipped", ""},
    {"skip(layers[0])", "line 1, column 13", "layers count from 1", ""},
    {"logits + 1", "line 1, column 1", "this line does nothing", "name = ..."},
    {"svae(logits, \"x\")", "line 1, column 1", "did you mean \"save\"?", ""},
    {"x = 1", "line 1, column 1", "changes nothing and saves nothing", "layers[12].output"},
    {"if logits.mean() > 0: x = 1", "line 1, column 1", "a name cannot depend", "where("},
    {"if logits.mean() > 0: x = param(1)", "line 1, column 1", "a name cannot depend",
     "without the if"},
    {"if logits.mean() > 0: when(steps=\"1\")", "line 1, column 1", "about the whole program", ""},
    // Parameters.
    {"param(1)", "line 1, column 1", "a parameter needs a name", "alpha = param(4.0)"},
    {"a = param()", "line 1, column 5", "param() needs \"value\"", ""},
    {"a = param(x)", "line 1, column 11", "are plain numbers", ""},
    {"a = param(1 + 1)", "line 1, column 11", "are plain numbers", ""},
    {"a = param(3, max=2)", "line 1, column 11", "outside of min and max", "between"},
    {"a = param(3, min=4, max=2)", "line 1, column 18", "min is above max", "exchange"},
    {"a = param(3, ramp_from=0)", "line 1, column 24", "nothing without ramp_steps", ""},
    {"a = param(3, ramp_steps=0)", "line 1, column 25", "a whole number from 1", ""},
    {"a = param(3, min=1, ramp_steps=5)", "line 1, column 32", "the ramp begins outside",
     "ramp_from"},
    {"a = param(3, mim=1)", "line 1, column 14", "param() has no \"mim\"", ""},
    // When.
    {"when(steps=\"1\")\nwhen(steps=\"2\")", "line 2, column 1", "when(...) is there twice", "one"},
    {"when(\"train\")", "line 1, column 6", "no more arguments without a name", ""},
    {"when(step=\"1\")", "line 1, column 6", "did you mean \"steps\"?", ""},
    {"when(phase=\"test\")", "line 1, column 12", "there is no phase \"test\"", "\"train,eval\""},
    {"when(phase=\"train,all\")", "line 1, column 12", "there is no phase", ""},
    {"when(phase=1)", "line 1, column 12", "phase is a string", "quotes"},
    {"when(prompts=\"prboes\")", "line 1, column 14", "did you mean \"probes\"?", "\"*\" for all"},
    {"when(phase=\"all\", prompts=\"probes\")", "line 1, column 27", "names every prompt set", ""},
    {"when(steps=\"5-1\")", "line 1, column 12", "\"5-1\" in steps is neither", "\"100-\""},
    {"when(steps=\"-1\")", "line 1, column 12", "\"-1\" in steps is neither", ""},
    {"when(steps=\"1,,2\")", "line 1, column 12", "\"\" in steps is neither", ""},
    {"when(steps=\"1 2\")", "line 1, column 12", "\"1 2\" in steps is neither", ""},
    {"when(steps=\"99999999999999999999\")", "line 1, column 12", "is neither", ""},
    {"when(tokens=\"-3--1\")", "line 1, column 13", "is neither", "\"-1\" for the last"},
    {"when(every=0)", "line 1, column 12", "every is a whole number", "every=2"},
    {"when(every=\"2\")", "line 1, column 12", "every is a whole number", ""},
    {"when(layers=\"0-3\")", "line 1, column 13", "layers count from 1 to 24", "1-24"},
    {"when(layers=\"3-25\")", "line 1, column 13", "layers count from 1 to 24", ""},
    {"when(layers=\"30-\")", "line 1, column 13", "layers count from 1 to 24", ""},
    {"when(layers=\"3\")\nlogits = 0", "line 1, column 1", "no line has it", "layers[layer]"},
    {"when(token_text=\"\")", "line 1, column 17", "token_text is empty", ""},
    {"when(positions=\"answer\")", "line 1, column 16", "there are no positions \"answer\"",
     "\"response\""},
};

TEST(GraphRefusal, SaysWhereWhatAndWhatInstead) {
  for (const Case& c : kCases) {
    const auto program = parse_program(c.text, test_model());
    ASSERT_FALSE(program.ok()) << c.text;
    EXPECT_EQ(program.error().code, "invalid_expression") << c.text;
    EXPECT_EQ(program.error().where, c.where) << c.text << "\n" << program.error().message;
    EXPECT_THAT(program.error().message, HasSubstr(c.message)) << c.text;
    EXPECT_THAT(program.error().remedy, HasSubstr(c.remedy)) << c.text;
    EXPECT_FALSE(program.error().remedy.empty()) << c.text << "\n" << program.error().message;
  }
}

TEST(GraphRefusal, ShowsTheLineAndACaret) {
  const auto program = parse_program("h = logits\nlayers[12].mlp.ouput = h + 1", test_model());
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().message,
            "layers[12].mlp has no \"ouput\", did you mean \"output\"? (line 2, column 16)\n"
            "  layers[12].mlp.ouput = h + 1\n"
            "                 ^~~~~");
  EXPECT_EQ(program.error().remedy, "there is input, fc1, activation, fc2, output");
}

std::string error_of(const std::string& text, const Model& model = test_model()) {
  const auto program = parse_program(text, model);
  return program.ok() ? "" : program.error().message;
}

TEST(GraphRefusal, Limits) {
  const std::string write = "logits = 1\n";
  EXPECT_EQ(error_of(std::string(kMaxNameBytes, 'a') + " = 1\n" + write), "");
  EXPECT_THAT(error_of(std::string(kMaxNameBytes + 1, 'a') + " = 1\n" + write),
              HasSubstr("the name has 65 bytes, the limit is 64"));
  EXPECT_EQ(error_of("save(1, \"" + std::string(kMaxNameBytes, 'a') + "\")"), "");
  EXPECT_THAT(error_of("save(1, \"" + std::string(kMaxNameBytes + 1, 'a') + "\")"),
              HasSubstr("a save's name has 65 bytes, the limit is 64"));
  std::string parameters;
  for (std::size_t i = 0; i < kMaxParameters; ++i)
    parameters += "p" + std::to_string(i) + " = param(1)\n";
  EXPECT_EQ(error_of(parameters + write), "");
  EXPECT_THAT(error_of(parameters + "q = param(1)\n" + write),
              HasSubstr("more than 50 parameters"));
}

TEST(GraphRefusal, ARunWithoutPromptsSaysHowToGiveSome) {
  const auto program = parse_program("when(prompts=\"probes\")\nlogits = 1", {gpt_places(24)});
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(program.error().remedy, HasSubstr("--monitor-prompts"));
  EXPECT_EQ(error_of("when(prompts=\"*\")\nlogits = 1", {gpt_places(24)}), "");
}

TEST(GraphRefusal, NamesOfOperatorsAreLeftToTheOperators) {
  for (const char* text : {"x = whatever(1)", "x = logits.whatever", "x = whatever + 1",
                           "x = tile(logits, (1, 2))", "norm = logits.norm()\ny = norm(logits)"})
    EXPECT_EQ(error_of(std::string(text) + "\nlogits = 1"), "") << text;
}

}  // namespace
}  // namespace tt::graph
