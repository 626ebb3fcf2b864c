#include <algorithm>

#include "src/graph/place_reader.h"
#include "src/graph/value_reader.h"
#include "src/graph/words.h"

namespace tt::graph {
namespace {

using expr::Kind;
using expr::kNoNode;
using expr::Node;
using expr::NodeId;

constexpr std::size_t kMaxFileNameBytes = 255;

const Signature kVector{"vector(\"evil\")[12]", {"name"}, 1, 1};
const Signature kFile{"file(\"clean.safetensors\")[\"resid\"]", {"name"}, 1, 1};
const Signature kSaved{"saved(\"name\")", {"name"}, 1, 1};
const Signature kNoise{
    "noise(layers[12].output, \"uniform\", seed=1)", {"place", "distribution", "seed"}, 2, 1};

// Reads one leaf. Every function returns false after a problem.
class LeafReader {
 public:
  LeafReader(Reading& reading, NodeId node, Leaf& leaf)
      : reading_(reading), node_(node), leaf_(leaf) {}

  // For example vector("evil")[12].
  bool read_vector(NodeId call, NodeId subscript) {
    const auto given = read_arguments(reading_, call, kVector);
    if (given.empty() ||
        !read_string(reading_, given[0], "a vector's name", kMaxFileNameBytes, leaf_.name))
      return false;
    leaf_.kind = LeafKind::kVector;
    return read_layer_ref(reading_, subscript, "vector(" + in_quotes(leaf_.name) + ")", leaf_.row);
  }

  // For example file("clean.safetensors")["resid"].
  bool read_file(NodeId call, NodeId subscript) {
    const auto given = read_arguments(reading_, call, kFile);
    if (given.empty() ||
        !read_string(reading_, given[0], "a file's name", kMaxFileNameBytes, leaf_.name))
      return false;
    if (leaf_.name.find_first_of("/\\") != std::string::npos || leaf_.name.starts_with(".")) {
      return reading_.fail(
          reading_.node(given[0]).span, in_quotes(leaf_.name) + " is not the plain name of a file",
          "put the file into the folder of --intervention-files and write its name alone");
    }
    leaf_.kind = LeafKind::kFile;
    return read_string(reading_, subscript, "a tensor's name", kMaxFileNameBytes, leaf_.key);
  }

  bool read_saved() {
    const auto given = read_arguments(reading_, node_, kSaved);
    leaf_.kind = LeafKind::kSaved;
    return !given.empty() &&
           read_string(reading_, given[0], "a save's name", kMaxNameBytes, leaf_.name);
  }

  bool read_noise() {
    const auto given = read_arguments(reading_, node_, kNoise);
    if (given.empty() || !read_noise_place(given[0])) return false;
    leaf_.kind = LeafKind::kNoise;
    leaf_.key = "normal";
    if (given[1] != kNoNode) {
      const Node& distribution = reading_.node(given[1]);
      if (distribution.text != "normal" && distribution.text != "uniform") {
        return reading_.fail(distribution.span, "noise is \"normal\" or \"uniform\"",
                             "write " + std::string(kNoise.usage));
      }
      leaf_.key = distribution.text;
    }
    if (given[2] == kNoNode) return true;
    const auto seed = reading_.integer(given[2]);
    if (!seed || *seed < 0) {
      return reading_.fail(reading_.node(given[2]).span, "a seed is a whole number from 0 on",
                           "write seed=1");
    }
    leaf_.seed = *seed;
    return true;
  }

 private:
  bool read_noise_place(NodeId argument) {
    const auto place = find_place_in(reading_, argument);
    if (reading_.problem()) return false;
    if (!place || place->end != argument || place->place.gradient ||
        place->place.heads != kNoNode) {
      return reading_.fail(reading_.node(argument).span, "noise has the shape of a whole place",
                           "write " + std::string(kNoise.usage) + ", and slice it behind that");
    }
    leaf_.place = place->place;
    return true;
  }

  Reading& reading_;
  NodeId node_;
  Leaf& leaf_;
};

bool refuse_bare_call(Reading& reading, NodeId node, const std::string& name) {
  const expr::Span span = reading.node(node).span;
  if (name == "vector") {
    return reading.fail(span, "a vector has a row for every layer",
                        "write " + std::string(kVector.usage));
  }
  if (name == "file")
    return reading.fail(span, "a file has several tensors", "write " + std::string(kFile.usage));
  return reading.fail(span, name + "(...) does not stand inside an expression",
                      "write it on a separate line");
}

Found found_if(bool is_read) { return is_read ? Found::kLeaf : Found::kProblem; }

Found find_name(const Names& names, const std::string& name, Leaf& leaf) {
  leaf.name = name;
  if (name == "layer") {
    leaf.kind = LeafKind::kLayer;
  } else if (const auto parameter = names.parameters.find(name);
             parameter != names.parameters.end()) {
    leaf.kind = LeafKind::kParameter;
    leaf.value = parameter->second;
  } else if (const auto value = names.values.find(name); value != names.values.end()) {
    leaf.kind = LeafKind::kBinding;
    leaf.value = value->second;
  } else {
    return Found::kNothing;
  }
  return Found::kLeaf;
}

}  // namespace

Found find_leaf(Reading& reading, const Names& names, NodeId id, Leaf& leaf) {
  const Node& node = reading.node(id);
  leaf.node = id;
  LeafReader reader(reading, id, leaf);
  if (node.kind == Kind::kIndex) {
    const std::string call = reading.called(node.children[0]);
    if (call == "vector") return found_if(reader.read_vector(node.children[0], node.children[1]));
    if (call == "file") return found_if(reader.read_file(node.children[0], node.children[1]));
  }
  if (const std::string call = reading.called(id); is_special_call(call)) {
    if (call == "saved") return found_if(reader.read_saved());
    if (call == "noise") return found_if(reader.read_noise());
    return found_if(refuse_bare_call(reading, id, call));
  }
  if (node.kind != Kind::kName && node.kind != Kind::kAttribute && node.kind != Kind::kIndex)
    return Found::kNothing;
  const auto place = find_place_in(reading, id);
  if (reading.problem()) return Found::kProblem;
  if (place && place->end == id) {
    leaf.place = place->place;
    return Found::kLeaf;
  }
  return node.kind == Kind::kName ? find_name(names, node.text, leaf) : Found::kNothing;
}

}  // namespace tt::graph
