#include "src/graph/place_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "src/graph/words.h"

namespace tt::graph {
namespace {

using expr::Kind;
using expr::kNoNode;
using expr::Node;
using expr::NodeId;
using expr::Operator;

// Splits a chain such as layers[12].mlp.output into its links, starting with its base.
std::vector<NodeId> unroll(const expr::Ast& ast, NodeId id) {
  std::vector<NodeId> chain = {id};
  while (ast.node(id).kind == Kind::kAttribute || ast.node(id).kind == Kind::kCall ||
         ast.node(id).kind == Kind::kIndex) {
    id = ast.node(id).children[0];
    chain.push_back(id);
  }
  std::ranges::reverse(chain);
  return chain;
}

// Reads one chain, starting with its base.
class PlaceReader {
 public:
  PlaceReader(Reading& reading, NodeId node)
      : reading_(reading), chain_(unroll(reading.ast(), node)) {}

  std::optional<FoundPlace> read() {
    const Node& base = reading_.node(chain_[0]);
    if (base.kind != Kind::kName) return std::nullopt;
    if (is_module(base.text) && next_is(Kind::kCall)) return std::nullopt;
    const bool found = base.text == "layers" ? read_in_layer() : read_outside(base);
    if (!found || !check_in_programs() || !read_gradient_and_heads()) return std::nullopt;
    return FoundPlace{place_, chain_[at_]};
  }

 private:
  const Node* next() const {
    return at_ + 1 < chain_.size() ? &reading_.node(chain_[at_ + 1]) : nullptr;
  }
  bool next_is(Kind kind) const { return next() != nullptr && next()->kind == kind; }
  std::string written() const {
    const expr::Span span = reading_.node(chain_[at_]).span;
    return reading_.ast().source().substr(span.begin, span.end - span.begin);
  }

  const points::PlaceTable& places() const { return *reading_.model().places; }
  const std::vector<points::Place>& rows() const { return places().rows(); }
  void set_row(std::size_t row) {
    place_.row = row;
    place_.point = rows()[row].name;
    place_.path = rows()[row].path;
  }

  bool read_in_layer() {
    if (!next_is(Kind::kIndex)) {
      return reading_.fail(reading_.node(chain_[0]).span, "layers needs the number of a layer",
                           "write layers[12].output");
    }
    LayerRef layer;
    if (!read_layer_ref(reading_, next()->children[1], "layers", layer)) return false;
    ++at_;
    place_.layer = layer;
    for (const std::string& path : places().layer_input_paths())
      if (const std::size_t words = words_ahead(path); words > 0) return read_input(layer, words);
    return follow_path("", true);
  }

  // The number of words of `path` if these words are next in the chain; else 0.
  std::size_t words_ahead(const std::string& path) const {
    std::size_t count = 0;
    for (std::size_t begin = 0; begin <= path.size(); ++count) {
      const std::size_t end = std::min(path.find('.', begin), path.size());
      const std::size_t link = at_ + 1 + count;
      if (link >= chain_.size()) return 0;
      const Node& node = reading_.node(chain_[link]);
      if (node.kind != Kind::kAttribute || node.text != path.substr(begin, end - begin)) return 0;
      begin = end + 1;
    }
    return count;
  }

  // Reads the alias, of `words` words, for the input of the layer, and replaces it by the place
  // before the layer.
  bool read_input(const LayerRef& layer, std::size_t words) {
    at_ += words;
    if (layer.is_each) {
      const int offset = layer.number - 1;
      const std::string before = offset == 0  ? "layer"
                                 : offset < 0 ? "layer - " + std::to_string(-offset)
                                              : "layer + " + std::to_string(offset);
      return reading_.fail(reading_.node(chain_[at_]).span,
                           written() + " would be the embedding for layer 1",
                           "write layers[" + before + "].output");
    }
    const points::PlaceKey input = places().input_of_layer(layer.number);
    set_row(input.row);
    place_.layer = input.layer == 0 ? std::nullopt : std::optional(LayerRef{false, input.layer});
    return true;
  }

  bool read_outside(const Node& base) {
    const auto row = places().find(base.text);
    if (row && rows()[*row].name == base.text && rows()[*row].in_layers()) {
      return reading_.fail(base.span, base.text + " is a place of every layer",
                           "write layers[12]." + base.text);
    }
    if (base.text == "layer" && next_is(Kind::kIndex)) {
      return reading_.fail(base.span, "\"layer\" is a number, did you mean \"layers\"?",
                           "write layers[12].output");
    }
    const auto words = place_words(places());
    if (std::ranges::find(words, base.text) == words.end()) return false;
    if (row && !rows()[*row].in_layers()) {
      set_row(*row);
      return true;
    }
    return follow_path(base.text, false);
  }

  // The words that may come after `path`. `all`: also those of places that programs cannot name.
  std::vector<std::string> members(const std::string& path, bool in_layer, bool all) const {
    std::vector<std::string> words;
    const std::string prefix = path.empty() ? "" : path + ".";
    const auto add = [&](const std::string& whole) {
      if (!whole.starts_with(prefix)) return;
      const std::string rest = whole.substr(prefix.size());
      std::string word = rest.substr(0, rest.find('.'));
      if (std::ranges::find(words, word) == words.end()) words.push_back(std::move(word));
    };
    for (const points::Place& row : rows()) {
      if (row.in_layers() != in_layer || !(all || row.in_programs)) continue;
      add(row.path);
      std::ranges::for_each(row.aliases, add);
    }
    if (!in_layer)
      for (const auto& [alias, place] : places().outer_aliases()) add(alias);
    return words;
  }

  // Takes words from the chain as long as they continue a place's path.
  bool follow_path(std::string path, bool in_layer) {
    while (next_is(Kind::kAttribute)) {
      const std::string& word = next()->text;
      const auto named = path.empty() ? places().find(word) : std::nullopt;
      if (named && rows()[*named].name == word && rows()[*named].in_layers()) {
        ++at_;
        set_row(*named);
        return true;
      }
      const auto known = members(path, in_layer, /*all=*/true);
      if (std::ranges::find(known, word) == known.end()) break;
      path += (path.empty() ? "" : ".") + word;
      ++at_;
    }
    if (const auto outer = places().outer_aliases().find(path);
        !in_layer && outer != places().outer_aliases().end()) {
      set_row(outer->second.row);
      place_.layer = LayerRef{false, outer->second.layer};
      return true;
    }
    const auto row = places().find(path);
    if (!row || rows()[*row].in_layers() != in_layer) return refuse_path(path, in_layer);
    set_row(*row);
    return true;
  }

  bool refuse_path(const std::string& path, bool in_layer) {
    auto known = members(path, in_layer, /*all=*/false);
    if (in_layer && path.empty()) known.insert(known.begin(), "input");
    const std::string remedy = fmt::format("there is {}", fmt::join(known, ", "));
    if (!next_is(Kind::kAttribute)) {
      return reading_.fail(reading_.node(chain_[at_]).span,
                           written() + " is not a value, its parts are", remedy);
    }
    if (in_layer && path.empty()) {
      for (const points::Place& row : rows())
        if (row.in_layers() && row.in_programs) known.push_back(row.name);
    }
    return reading_.fail(
        next()->name_span,
        written() + " has no " + in_quotes(next()->text) + expr::suggestion(next()->text, known),
        remedy);
  }

  bool check_in_programs() {
    const points::Place& row = rows()[place_.row];
    if (row.in_programs) return true;
    const expr::Span span = reading_.node(chain_[at_]).span;
    if (row.is_rank_local)
      return reading_.fail(span,
                           written() + " is known on each rank alone, not how the ranks share it",
                           "say it with placements= of tensor_tracer.attach()");
    return reading_.fail(span, written() + " is computed only for the trace plan",
                         row.formula.empty() ? "" : "compute it here: " + row.formula);
  }

  bool read_gradient_and_heads() {
    while (next_is(Kind::kAttribute)) {
      if (next()->text == "grad" && !place_.gradient) {
        if (!read_gradient()) return false;
      } else if (next()->text == "heads" && place_.heads == kNoNode) {
        if (!read_heads()) return false;
      } else {
        return true;
      }
    }
    return true;
  }

  bool read_gradient() {
    const points::Place& row = rows()[place_.row];
    if (!row.has_program_gradient()) {
      return reading_.fail(next()->name_span, written() + " has no gradient here",
                           row.is_weight ? "the gradients of weights belong to the optimizer"
                                         : "write the gradient of a place that can be written");
    }
    place_.gradient = true;
    ++at_;
    return true;
  }

  bool read_heads() {
    if (!rows()[place_.row].has_heads) {
      return reading_.fail(next()->name_span, written() + " is not divided into heads",
                           "attention.context, .query, .key and .value are");
    }
    ++at_;
    const std::string remedy = "write .heads[3], .heads[1:3] or .heads[[0, 2]]";
    if (!next_is(Kind::kIndex)) {
      return reading_.fail(reading_.node(chain_[at_]).name_span, "heads needs numbers of heads",
                           remedy);
    }
    const NodeId subscript = next()->children[1];
    if (!is_plain_index(reading_, subscript))
      return reading_.fail(reading_.node(subscript).span, "this does not name heads", remedy);
    place_.heads = subscript;
    ++at_;
    return true;
  }

  Reading& reading_;
  std::vector<NodeId> chain_;
  std::size_t at_ = 0;  // the place's last link so far
  Place place_;
};

// The offset in `layer`, `layer + 1` or `layer - 1`.
std::optional<std::int64_t> read_offset(const Reading& reading, NodeId id) {
  if (reading.is_name(id, "layer")) return 0;
  const Node& node = reading.node(id);
  if (node.kind != Kind::kBinary) return std::nullopt;
  const Node& right = reading.node(node.children[1]);
  if (!reading.is_name(node.children[0], "layer") || right.kind != Kind::kInt) return std::nullopt;
  if (node.op == Operator::kAdd) return right.integer;
  if (node.op == Operator::kSubtract) return -right.integer;
  return std::nullopt;
}

// The problem of a layer's number; empty if there is no problem.
std::string out_of_range(std::int64_t number, int num_layers, bool is_vector) {
  const std::string last = std::to_string(num_layers);
  if (number > num_layers)
    return "there is no layer " + std::to_string(number) + ", the model has " + last;
  if (is_vector)
    return number < 0 ? "rows of a vector count from 0, the embedding, to " + last : "";
  if (number == 0) return "layers count from 1 to " + last + "; the embedding is embedding.output";
  return number < 0 ? "layers count from 1 to " + last : "";
}

}  // namespace

bool read_layer_ref(Reading& reading, NodeId subscript, const std::string& what, LayerRef& layer) {
  const bool is_vector = what != "layers";
  const int num_layers = reading.model().num_layers();
  const expr::Span span = reading.node(subscript).span;
  if (const auto offset = read_offset(reading, subscript)) {
    if (std::abs(*offset) > num_layers) {
      return reading.fail(span, "there are only " + std::to_string(num_layers) + " layers",
                          "write layer, layer + 1 or layer - 1");
    }
    layer = {true, static_cast<int>(*offset)};
    return true;
  }
  const auto number = reading.integer(subscript);
  if (!number) {
    const std::string remedy =
        is_vector ? "write " + what + "[12] or " + what + "[layer]"
                  : "write layers[12], or layers[layer] with when(layers=\"8-12\")";
    return reading.fail(span, "between these brackets stands one number, or layer", remedy);
  }
  const std::string wrong = out_of_range(*number, num_layers, is_vector);
  if (!wrong.empty()) {
    return reading.fail(span, wrong,
                        "write a number from " + std::string(is_vector ? "0" : "1") + " to " +
                            std::to_string(num_layers));
  }
  layer = {false, static_cast<int>(*number)};
  return true;
}

bool is_plain_index(Reading& reading, NodeId item) {
  const Node& node = reading.node(item);
  const auto is_integer = [&](NodeId id) { return reading.integer(id).has_value(); };
  if (node.kind == Kind::kList)
    return !node.children.empty() && std::ranges::all_of(node.children, is_integer);
  if (node.kind == Kind::kSlice) {
    const NodeId step = node.children[2];
    if (step != kNoNode && reading.integer(step).value_or(1) < 1) {
      return reading.fail(node.span, "the step of a slice is positive",
                          "write it from the first to the last");
    }
    return std::ranges::all_of(node.children,
                               [&](NodeId id) { return id == kNoNode || is_integer(id); });
  }
  return is_integer(item);
}

std::optional<FoundPlace> find_place_in(Reading& reading, NodeId node) {
  return PlaceReader(reading, node).read();
}

}  // namespace tt::graph
