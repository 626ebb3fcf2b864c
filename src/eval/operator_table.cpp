#include "src/eval/operator_table.h"

#include <sstream>

namespace tt::eval {
namespace {

// Operators with the same properties. Each is written name[=aten name][/overload,…]. "-" is the
// overload without a name, which is also the default.
struct Family {
  std::string_view group;
  Cost cost;
  Pattern pattern;
  int traits;
  std::string_view operators;
};

constexpr std::string_view kReductions = "Reductions";
constexpr std::string_view kOrder = "Order statistics";
constexpr std::string_view kAlong = "Along a dimension";
constexpr std::string_view kElementwise = "Element-wise";
constexpr std::string_view kCompare = "Comparison and logic";
constexpr std::string_view kShape = "Shape";
constexpr std::string_view kJoin = "Join and repeat";
constexpr std::string_view kMatrices = "Matrices";
constexpr std::string_view kCreate = "Create and convert";

constexpr Family kFamilies[] = {
    {kReductions, Cost::kElements, Pattern::kAlongDim, kProbe,
     "sum/-,dim_IntList mean/-,dim std/dim,correction,- var/dim,correction,- "
     "std_mean/dim,correction,- var_mean/dim,correction,- amax amin aminmax max/-,dim min/-,dim "
     "argmax argmin prod/-,dim_int norm=linalg_vector_norm linalg_vector_norm logsumexp nansum "
     "nanmean/- count_nonzero/-,dim_IntList all/-,dim,dims any/-,dim,dims"},
    {kOrder, Cost::kSort, Pattern::kAlongDim, kProbe,
     "median/-,dim nanmedian/-,dim mode quantile/scalar nanquantile/scalar sort/-,stable "
     "argsort/-,stable topk kthvalue"},
    {kOrder, Cost::kSort, Pattern::kAnywhere, kProbe, "quantile nanquantile"},
    {kAlong, Cost::kElements, Pattern::kAlongDim, kPlain,
     "cumsum cumprod softmax/int log_softmax/int gather take_along_dim"},
    {kAlong, Cost::kJoined, Pattern::kAlongDim, kPlain, "diff"},
    {kAlong, Cost::kBroadcast, Pattern::kAlongDim, kPlain, "cosine_similarity"},
    {kAlong, Cost::kElements, Pattern::kAlongDim, kProbe,
     "cummax cummin logcumsumexp flip roll index_select"},
    {kElementwise, Cost::kElements, Pattern::kElementwise, kPlain,
     "abs absolute neg negative positive sign sgn square sqrt rsqrt reciprocal exp exp2 expm1 log "
     "log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid relu "
     "relu6 gelu silu mish elu leaky_relu hardtanh hardswish hardsigmoid softplus "
     "logsigmoid=log_sigmoid logit erf erfc erfinv lgamma digamma floor ceil round/-,decimals "
     "trunc "
     "frac nan_to_num clamp/-,Tensor clip/-,Tensor clamp_min/-,Tensor clamp_max/-,Tensor"},
    {kElementwise, Cost::kElements, Pattern::kElementwise, kNumbers,
     "add/Tensor sub/Tensor subtract/Tensor mul/Tensor multiply/Tensor div/Tensor,Tensor_mode "
     "divide/Tensor,Tensor_mode true_divide/Tensor floor_divide"},
    {kElementwise, Cost::kElements, Pattern::kElementwise, kPlain,
     "rsub/Tensor,Scalar remainder/Tensor,Scalar,Scalar_Tensor fmod/Tensor,Scalar "
     "pow/Tensor_Tensor,Scalar,Tensor_Scalar atan2 hypot maximum minimum max/other min/other fmax "
     "fmin logaddexp xlogy/Tensor,Scalar_Self,Scalar_Other lerp/Scalar,Tensor addcmul addcdiv "
     "copysign/Tensor,Scalar where/self,ScalarSelf,ScalarOther,Scalar"},
    {kCompare, Cost::kElements, Pattern::kElementwise, kPlain,
     "eq/Tensor,Scalar ne/Tensor,Scalar lt/Tensor,Scalar le/Tensor,Scalar gt/Tensor,Scalar "
     "ge/Tensor,Scalar isclose isnan isinf isfinite isposinf isneginf signbit logical_and "
     "logical_or logical_xor logical_not bitwise_and/Tensor,Scalar bitwise_or/Tensor,Scalar "
     "bitwise_xor/Tensor,Scalar bitwise_not"},
    {kShape, Cost::kView, Pattern::kAlongDim, kPlain,
     "narrow select/int squeeze/-,dim,dims unsqueeze unflatten/int"},
    {kShape, Cost::kView, Pattern::kAlongDim, kParts,
     "chunk split/Tensor,sizes tensor_split/sections,indices unbind/int"},
    {kShape, Cost::kView, Pattern::kAnywhere, kPlain,
     "transpose/int swapaxes swapdims permute movedim/int,intlist expand expand_as "
     "broadcast_to diagonal"},
    {kShape, Cost::kElements, Pattern::kAnywhere, kPlain,
     "view=reshape reshape flatten/using_ints"},
    {kJoin, Cost::kElements, Pattern::kAnywhere, kPlain, "cat concat stack repeat tile"},
    {kJoin, Cost::kElements, Pattern::kAlongDim, kPlain, "repeat_interleave/self_int"},
    {kMatrices, Cost::kMatmul, Pattern::kAnywhere, kPlain, "matmul mm bmm mv outer"},
    {kMatrices, Cost::kElements, Pattern::kAnywhere, kProbe, "dot"},
    {kMatrices, Cost::kElements, Pattern::kAnywhere, kPlain, "tril triu"},
    {kMatrices, Cost::kBroadcast, Pattern::kAnywhere, kPlain, "dist"},
    {kMatrices, Cost::kElements, Pattern::kAnywhere, kProbe, "trace"},
    {kMatrices, Cost::kMatrix, Pattern::kAnywhere, kPlain, "linalg_norm/-,ord_str"},
    {kCreate, Cost::kElements, Pattern::kElementwise, kPlain,
     "to/dtype clone contiguous detach zeros_like ones_like full_like"},
    {kCreate, Cost::kElements, Pattern::kAnywhere, kFactory,
     "arange/-,start,start_step linspace zeros ones full eye/-,m"},
    {"", Cost::kView, Pattern::kAlongDim, kInternal, "slice/Tensor"},
    {"", Cost::kView, Pattern::kAnywhere, kInternal, "mT T=numpy_T"},
};

std::vector<std::string> split_overloads(const std::string& text) {
  std::vector<std::string> overloads;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');)
    overloads.push_back(word == "-" ? "" : word);
  return overloads;
}

OperatorRow read_row(const Family& family, const std::string& written) {
  const std::size_t slash = written.find('/');
  const std::string names = written.substr(0, slash);
  const std::size_t equals = names.find('=');
  OperatorRow row;
  row.name = names.substr(0, equals);
  row.aten_name = equals == std::string::npos ? names : names.substr(equals + 1);
  row.overloads = split_overloads(slash == std::string::npos ? "-" : written.substr(slash + 1));
  row.group = family.group;
  row.cost = family.cost;
  row.pattern = family.pattern;
  row.traits = family.traits;
  row.is_arithmetic = family.group == kElementwise;
  return row;
}

std::vector<OperatorRow> read_table() {
  std::vector<OperatorRow> rows;
  for (const Family& family : kFamilies) {
    std::istringstream words{std::string(family.operators)};
    for (std::string word; words >> word;) rows.push_back(read_row(family, word));
  }
  return rows;
}

}  // namespace

const std::vector<OperatorRow>& operator_table() {
  static const std::vector<OperatorRow> rows = read_table();
  return rows;
}

std::vector<const OperatorRow*> find_operator(std::string_view name) {
  std::vector<const OperatorRow*> found;
  for (const OperatorRow& row : operator_table())
    if (row.name == name) found.push_back(&row);
  return found;
}

}  // namespace tt::eval
