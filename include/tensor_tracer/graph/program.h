#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/expr/diagnostic.h"
#include "tensor_tracer/expr/script.h"
#include "tensor_tracer/points/place_table.h"
#include "tensor_tracer/points/prompt_sets.h"

namespace tt::graph {

/// `layers[12]`; with `is_each` it is `layers[layer + offset]`, for every layer of when(layers=…).
struct LayerRef {
  bool is_each = false;
  int number = 0;  // the layer's number, or the offset

  int at(int layer) const { return is_each ? layer + number : number; }
};

/// A named place of the forward, or the place's gradient.
struct Place {
  std::size_t row = 0;            // in the place table
  std::string point = {};         // the row's name
  std::string path = {};          // the row's path
  std::optional<LayerRef> layer;  // unset: outside the layers
  bool gradient = false;
  expr::NodeId heads = expr::kNoNode;  // the subscript after .heads, one integer, slice or list

  /// The place for layer `of_layer`: replaces for example `layers[layer + 1]` by the layer's
  /// number.
  Place in(int of_layer) const;
};

/// The meaning of a leaf, which is a part of an expression that is not an operator or a number.
enum class LeafKind : std::uint8_t {
  kPlace,      // a getter: `place`
  kParameter,  // `name`
  kBinding,    // the value `name` of an earlier line: `value`
  kVector,     // vector("name")[row]
  kFile,       // file("name")["key"]
  kNoise,      // noise(place, "normal" or "uniform" in `key`, seed=`seed`); has the place's shape
  kSaved,      // saved("name")
  kLayer,      // `layer`, an integer
};

struct Leaf {
  LeafKind kind = LeafKind::kPlace;
  expr::NodeId node = expr::kNoNode;  // the leaf's whole subtree of the script
  Place place = {};
  std::string name = {};
  std::string key = {};
  LayerRef row = {};
  std::int64_t seed = 0;
  std::size_t value = 0;
};

/// An expression that is evaluated once: a binding, the expression of a write, save or condition,
/// or a call of a part of the model and its argument, which are two values.
struct Value {
  std::string name;  // for a binding, else empty
  expr::NodeId root = expr::kNoNode;
  std::vector<Leaf> leaves;  // in source order
  /// "final_norm" or "output_layer": the value is the result of this part of the model. It has one
  /// leaf, a kBinding of the argument. Else empty.
  std::string module = {};
};

/// A named number that can be changed while the program runs.
struct Parameter {
  std::string name;
  double value = 0.0;
  std::optional<double> min = std::nullopt;
  std::optional<double> max = std::nullopt;
  /// If ramp_steps > 0, the number in force goes from ramp_from to the value in ramp_steps steps.
  double ramp_from = 0.0;
  std::int64_t ramp_steps = 0;
  expr::Span span = {};

  bool admits(double number) const;
  /// The number in the n-th step of the program, from 0, if the requested value is `target`.
  double in_step(double target, std::int64_t n) const;
};

enum class EffectKind : std::uint8_t { kWrite, kSave, kSkip };

/// The effect of a line that does not only name a value.
struct Effect {
  EffectKind kind = EffectKind::kWrite;
  Place place = {};                           // kWrite; kSkip: its layer only
  expr::NodeId index = expr::kNoNode;         // kWrite: the subscript after the place
  std::size_t value = 0;                      // kWrite, kSave: index in Program::values
  std::optional<std::size_t> condition = {};  // index in Program::values
  std::string name = {};                      // kSave
  bool sends = true;                          // kSave: sends to viewers; false: for saved() only
  expr::Span span = {};                       // of the line
};

/// Closed ranges of whole numbers, such as "1-4,8". Negative numbers count from the end.
using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// The tokens of a text at which a program writes: docs/intervention_graph.md, "positions".
enum class Positions : std::uint8_t { kAll, kPrompt, kResponse, kPublished };

/// The times and places at which a program acts. Empty ranges: everywhere.
struct Schedule {
  bool in_train = true;
  bool in_eval = false;
  std::vector<std::string> prompt_sets;  // names; "*": all
  Ranges steps;                          // of the run
  std::int64_t every = 1;                // steps
  std::vector<int> layers;               // the values of `layer`, ascending; set by parsing
  Ranges rows;                           // of the global batch, from 0
  Ranges tokens;                         // positions in the sequence
  std::string token_text;                // positions of the tokens that spell this text
  Positions positions = Positions::kAll;
};

/// A program after resolution: names, places and order are checked, shapes are not. Immutable;
/// copies share the script. Thread: any.
struct Program {
  std::shared_ptr<const expr::Script> script;
  std::vector<Parameter> parameters;
  std::vector<Value> values;  // each value comes before its users; bindings in source order
  std::vector<Effect> effects;
  Schedule when;
  bool uses_each_layer = false;  // a place, vector or number contains `layer`

  const expr::Ast& ast() const { return script->ast; }
};

/// The run that a program is checked for.
struct Model {
  std::shared_ptr<const points::PlaceTable> places;  // not null
  points::PromptSets prompt_sets = points::PromptSets();
  std::string no_prompts = {};  // why programs do not act on prompts; empty: they do
  /// Why programs cannot tell the response of a text from its prompt; empty: they can.
  std::string no_responses = {};

  int num_layers() const { return places->num_layers(); }
};

/// The largest size of a program, besides expr::kScriptLimits.
inline constexpr std::size_t kMaxEffects = 100;  // counted for each value of `layer`
inline constexpr std::size_t kMaxParameters = 50;
inline constexpr std::size_t kMaxNameBytes = 64;

/// Reads and checks the text form (docs/intervention_graph.md): names, places, the order of reads
/// and writes, limits. A problem is an Error as in expr::to_error(). Needs no libtorch; intervene
/// checks shapes. Thread: any.
base::Result<Program> parse_program(std::string_view text, const Model& model);

/// True if the effect, a write, leaves its place unchanged for these numbers of the parameters. The
/// check uses only arithmetic on 0 and 1: x + 0 * v, 1 * x, where(c, x, x). Such a write is not
/// executed. The answer holds if all numbers are finite. Thread: any.
bool is_identity(const Program& program, const Effect& effect,
                 const std::map<std::string, double>& parameters);

/// True if the effect happens once for every layer of `program.when.layers`: it contains `layer`,
/// or uses a value or a save that contains it. Otherwise the effect happens once. Thread: any.
bool is_each(const Program& program, const Effect& effect);

/// The place as people write it, without its heads: "layers[12].output",
/// "layers[layer].mlp.output.grad", "logits".
std::string to_string(const Place& place);

}  // namespace tt::graph
