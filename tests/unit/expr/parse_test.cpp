#include "tensor_tracer/expr/parse.h"

#include <gtest/gtest.h>

#include "tests/unit/expr/tree_text.h"

namespace tt::expr {
namespace {

std::string tree(std::string_view text) {
  const auto ast = parse(text);
  return ast.ok() ? tree_text(ast.value(), ast.value().root()) : "error: " + ast.error().message;
}

struct Case {
  const char* text;
  const char* tree;
};

// The trees are Python's: ast.dump(ast.parse(text, mode="eval")) has the same shape.
constexpr Case kCases[] = {
    {"data", "data"},
    {"  data # all of it\n", "data"},
    {"1_000", "1000"},
    {".5e1", "5.000000"},
    {"1 + 2 * 3", "(+ 1 (* 2 3))"},
    {"(1 + 2) * 3", "(* (+ 1 2) 3)"},
    {"1 - 2 - 3", "(- (- 1 2) 3)"},
    {"a / b // c % d @ e", "(@ (% (// (/ a b) c) d) e)"},
    {"-a ** -b", "(neg (** a (neg b)))"},
    {"a ** b ** c", "(** a (** b c))"},
    {"-a.b", "(neg (.b a))"},
    {"~a & b | c ^ d", "(| (& (~ a) b) (^ c d))"},
    {"a + b & c", "(& (+ a b) c)"},
    {"a & b == c", "(== (& a b) c)"},
    {"(a > 1) & (b < 2)", "(& (> a 1) (< b 2))"},
    {"+a - +b", "(- (pos a) (pos b))"},
    {"a != b", "(!= a b)"},
    {"a <= b", "(<= a b)"},
    {"a >= b", "(>= a b)"},
    {"x.mean(-1, keepdim=True)", "(call (.mean x) (neg 1) (keepdim= True))"},
    {"torch.linalg.norm(x)", "(call (.norm (.linalg torch)) x)"},
    {"f()", "(call f)"},
    {"f(a,)", "(call f a)"},
    {"f(x)(y)[0].z", "(.z (index (call (call f x) y) 0))"},
    {"x[0]", "(index x 0)"},
    {"x[:]", "(index x (slice _ _ _))"},
    {"x[1:]", "(index x (slice 1 _ _))"},
    {"x[:-1]", "(index x (slice _ (neg 1) _))"},
    {"x[::2]", "(index x (slice _ _ 2))"},
    {"x[a:b:c]", "(index x (slice a b c))"},
    {"x[..., None, 0:2]", "(index x (tuple ... None (slice 0 2 _)))"},
    {"x[0,]", "(index x (tuple 0))"},
    {"x[(0, 1)]", "(index x (tuple 0 1))"},
    {"x[[0, 1]]", "(index x (list 0 1))"},
    {"[]", "(list)"},
    {"()", "(tuple)"},
    {"(a,)", "(tuple a)"},
    {"((a))", "a"},
    {"[1, 2.5, None, True, False, ...]", "(list 1 2.500000 None True False ...)"},
    {R"(vector("evil")[12])", "(index (call vector \"evil\") 12)"},
    {R"(f('it\'s'))", "(call f \"it's\")"},
    {"(a +\n  b)", "(+ a b)"},
};

TEST(Parse, BuildsPythonsTree) {
  for (const Case& c : kCases) EXPECT_EQ(tree(c.text), c.tree) << c.text;
}

TEST(Parse, ChildrenStandBeforeTheirParents) {
  const auto ast = parse("f(a[1:, None], -b ** 2, k=[c, (d, 1)]).e");
  ASSERT_TRUE(ast.ok());
  for (NodeId id = 0; id < ast.value().size(); ++id)
    for (const NodeId child : ast.value().node(id).children)
      EXPECT_TRUE(child == kNoNode || child < id);
  EXPECT_EQ(ast.value().root(), ast.value().size() - 1);
}

TEST(Parse, NodesKnowTheirPlace) {
  const std::string text = "a + data.mean(dim=-1)";
  const auto ast = parse(text);
  ASSERT_TRUE(ast.ok());
  const auto piece = [&](Span span) { return text.substr(span.begin, span.end - span.begin); };
  const Node& sum = ast.value().node(ast.value().root());
  EXPECT_EQ(piece(sum.span), text);
  EXPECT_EQ(piece(sum.name_span), "+");
  const Node& call = ast.value().node(sum.children[1]);
  EXPECT_EQ(piece(call.span), "data.mean(dim=-1)");
  EXPECT_EQ(piece(ast.value().node(call.children[0]).name_span), "mean");
  EXPECT_EQ(piece(ast.value().node(call.children[1]).name_span), "dim");
}

}  // namespace
}  // namespace tt::expr
