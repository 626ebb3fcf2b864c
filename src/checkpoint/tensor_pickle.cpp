#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "src/checkpoint/tensor_bytes.h"

namespace tt::checkpoint {
namespace {

constexpr std::size_t kMaxValues = 256;  // a tensor's pickle has about 30

base::Error not_a_tensor() { return bad_tensor("it is not a tensor that torch.save wrote"); }

// A value of the pickle. Tuples hold numbers or the parts of a tensor. The elements of a tuple are
// indices into the list of all values, so values are not nested.
struct Value {
  enum class Kind : std::uint8_t {
    kMark,
    kNumber,
    kText,
    kGlobal,
    kTuple,
    kStorage,
    kHooks,
    kTensor
  };
  Kind kind = Kind::kNumber;
  std::int64_t number = 0;           // of a storage: its elements
  std::string_view text = {};        // of a global: module, newline, name; of a storage: record
  std::vector<std::size_t> parts{};  // of a tuple
  Number type = Number::kF32;        // of a storage
};
using Kind = Value::Kind;

std::optional<Number> storage_number(std::string_view storage_class) {
  if (storage_class == "torch\nDoubleStorage") return Number::kF64;
  if (storage_class == "torch\nFloatStorage") return Number::kF32;
  if (storage_class == "torch\nHalfStorage") return Number::kF16;
  if (storage_class == "torch\nBFloat16Storage") return Number::kBf16;
  return std::nullopt;
}

// The stack machine of Python's pickle, protocol 2, with the opcodes that a tensor needs.
class TensorPickle {
 public:
  explicit TensorPickle(std::string_view text) : text_(text) {}

  base::Result<PickledTensor> read() {
    while (!is_done_) {
      if (text_.empty() || values_.size() >= kMaxValues) return not_a_tensor();
      const char opcode = take(1).front();
      if (opcode == '}') return bad_tensor("it holds a dictionary, not a tensor");
      if (opcode == ']') return bad_tensor("it holds a list, not a tensor");
      if (!step(opcode)) return problem_.value_or(not_a_tensor());
    }
    return std::move(tensor_);
  }

 private:
  // False: the text is not a tensor, or is cut off.
  bool step(char opcode) {
    switch (opcode) {
      case '\x80':  // PROTO
        return take(1) == "\x02";
      case '(':  // MARK
        return push({.kind = Kind::kMark});
      case 'c':  // GLOBAL
        return push_global();
      case 'X':  // BINUNICODE
        return push_text();
      case ')':  // EMPTY_TUPLE
        return push({.kind = Kind::kTuple});
      case 't':  // TUPLE
        return push_tuple_to_mark();
      case '\x85':  // TUPLE1
      case '\x86':  // TUPLE2
      case '\x87':  // TUPLE3
        return push_tuple(static_cast<std::size_t>(opcode - '\x84'));
      case 'Q':  // BINPERSID
        return push_storage();
      case 'R':  // REDUCE
        return reduce();
      case '.':  // STOP
        is_done_ = true;
        return stack_.size() == 1 && top().kind == Kind::kTensor;
      default:
        return push_number(opcode) || use_memo(opcode);
    }
  }

  bool push_number(char opcode) {
    switch (opcode) {
      case '\x88':  // NEWTRUE
      case '\x89':  // NEWFALSE
        return push({.kind = Kind::kNumber, .number = opcode == '\x88' ? 1 : 0});
      case 'K':  // BININT1
        return push_integer(1);
      case 'M':  // BININT2
        return push_integer(2);
      case 'J':  // BININT
        return push_integer(4);
      case '\x8a': {  // LONG1
        const auto size = integer(1);
        return size && *size <= 7 && push_integer(static_cast<std::size_t>(*size));
      }
      default:
        return false;
    }
  }

  bool use_memo(char opcode) {
    const std::size_t bytes = opcode == 'q' || opcode == 'h' ? 1 : 4;
    if (opcode != 'q' && opcode != 'r' && opcode != 'h' && opcode != 'j') return false;
    const auto key = integer(bytes);
    if (!key) return false;
    if (opcode == 'q' || opcode == 'r') {  // BINPUT, LONG_BINPUT
      if (stack_.empty() || memo_.size() >= kMaxValues) return false;
      memo_[*key] = stack_.back();
      return true;
    }
    const auto found = memo_.find(*key);  // BINGET, LONG_BINGET
    if (found == memo_.end() || stack_.size() >= kMaxValues) return false;
    stack_.push_back(found->second);
    return true;
  }

  // Takes the next `bytes` bytes; empty if the text is shorter.
  std::string_view take(std::size_t bytes) {
    const std::string_view taken =
        text_.size() < bytes ? std::string_view() : text_.substr(0, bytes);
    text_.remove_prefix(taken.size());
    return taken;
  }
  std::optional<std::int64_t> integer(std::size_t bytes) {
    const std::string_view taken = take(bytes);
    if (taken.size() != bytes) return std::nullopt;
    std::int64_t value = 0;
    std::memcpy(&value, taken.data(), bytes);
    return value;
  }
  bool push_integer(std::size_t bytes) {
    const auto value = integer(bytes);
    return value && push({.kind = Kind::kNumber, .number = *value});
  }
  bool push(Value value) {
    stack_.push_back(values_.size());
    values_.push_back(std::move(value));
    return true;
  }
  const Value& top() const { return values_[stack_.back()]; }
  std::optional<std::size_t> pop() {
    if (stack_.empty()) return std::nullopt;
    const std::size_t index = stack_.back();
    stack_.pop_back();
    return index;
  }

  // Reads two lines: module and name.
  bool push_global() {
    const std::size_t first = text_.find('\n');
    const std::size_t second =
        first == std::string_view::npos ? first : text_.find('\n', first + 1);
    if (second == std::string_view::npos) return false;
    const std::string_view global = take(second + 1).substr(0, second);
    return push({.kind = Kind::kGlobal, .text = global});
  }
  bool push_text() {
    const auto size = integer(4);
    if (!size || static_cast<std::size_t>(*size) > text_.size()) return false;
    return push({.kind = Kind::kText, .text = take(static_cast<std::size_t>(*size))});
  }
  bool push_tuple_to_mark() {
    const auto mark = std::find_if(stack_.rbegin(), stack_.rend(), [this](std::size_t index) {
      return values_[index].kind == Kind::kMark;
    });
    if (mark == stack_.rend()) return false;
    if (!push_tuple(static_cast<std::size_t>(mark - stack_.rbegin()))) return false;
    stack_.erase(stack_.end() - 2);  // the mark
    return true;
  }
  bool push_tuple(std::size_t size) {
    if (stack_.size() < size) return false;
    const std::vector<std::size_t> parts(stack_.end() - static_cast<std::ptrdiff_t>(size),
                                         stack_.end());
    stack_.resize(stack_.size() - size);
    return push({.kind = Kind::kTuple, .parts = parts});
  }

  // The parts of a tuple if they have these kinds.
  std::optional<std::vector<Value>> parts_of(std::optional<std::size_t> tuple,
                                             const std::vector<Kind>& kinds) const {
    if (!tuple || values_[*tuple].kind != Kind::kTuple) return std::nullopt;
    std::vector<Value> parts;
    for (const std::size_t index : values_[*tuple].parts) parts.push_back(values_[index]);
    if (!std::ranges::equal(parts, kinds, {}, &Value::kind)) return std::nullopt;
    return parts;
  }
  // ("storage", class, record, device, elements)
  bool push_storage() {
    const auto parts =
        parts_of(pop(), {Kind::kText, Kind::kGlobal, Kind::kText, Kind::kText, Kind::kNumber});
    if (!parts || parts->front().text != "storage") return false;
    const std::string_view storage_class = (*parts)[1].text;
    const auto type = storage_number(storage_class);
    if (!type) return refuse_storage(storage_class);
    return push({.kind = Kind::kStorage,
                 .number = parts->back().number,
                 .text = (*parts)[2].text,
                 .type = *type});
  }
  bool refuse_storage(std::string_view storage_class) {
    if (storage_class.starts_with("torch\n") && storage_class.ends_with("Storage"))
      problem_ = bad_tensor("it holds a " + std::string(storage_class.substr(6, 64)));
    return false;
  }
  bool reduce() {
    const auto arguments = pop(), function = pop();
    if (!function || values_[*function].kind != Kind::kGlobal) return false;
    const std::string_view name = values_[*function].text;
    if (name == "collections\nOrderedDict")
      return parts_of(arguments, {}) && push({.kind = Kind::kHooks});
    if (name == "torch._utils\n_rebuild_parameter")
      problem_ = bad_tensor("it is a torch.nn.Parameter, not a tensor");
    return name == "torch._utils\n_rebuild_tensor_v2" && push_tensor(arguments);
  }
  // (storage, offset, shape, strides, requires_grad, hooks)
  bool push_tensor(std::optional<std::size_t> arguments) {
    const auto parts = parts_of(arguments, {Kind::kStorage, Kind::kNumber, Kind::kTuple,
                                            Kind::kTuple, Kind::kNumber, Kind::kHooks});
    if (!parts) return false;
    const Value& storage = parts->front();
    tensor_ = {storage.type, std::string(storage.text), storage.number, (*parts)[1].number, {}, {}};
    return read_numbers((*parts)[2], tensor_.shape) && read_numbers((*parts)[3], tensor_.strides) &&
           push({.kind = Kind::kTensor});
  }
  bool read_numbers(const Value& tuple, std::vector<std::int64_t>& numbers) const {
    for (const std::size_t index : tuple.parts) {
      if (values_[index].kind != Kind::kNumber) return false;
      numbers.push_back(values_[index].number);
    }
    return true;
  }

  std::string_view text_;
  std::vector<Value> values_;       // all values so far
  std::vector<std::size_t> stack_;  // indices into values_
  std::map<std::int64_t, std::size_t> memo_;
  PickledTensor tensor_;
  std::optional<base::Error> problem_;  // the reason why a step failed, if it is known
  bool is_done_ = false;
};

}  // namespace

base::Result<PickledTensor> read_tensor_pickle(std::string_view pickle) {
  return TensorPickle(pickle).read();
}

base::Result<TensorBytes> find_in_pt(std::string_view file) {
  if (file.starts_with("\x80\x02"))  // a pickle, not an archive
    return bad_tensor("it has the format of torch.save before PyTorch 1.6");
  const auto record = find_zip_record(file, "data.pkl");
  if (!record) return record.error();
  auto pickled = read_tensor_pickle(file.substr(record.value().begin, record.value().size));
  if (!pickled) return pickled.error();
  PickledTensor& tensor = pickled.value();
  const auto storage = find_zip_record(file, "data/" + tensor.storage);
  if (!storage) return storage.error();
  const std::size_t number = bytes_of(tensor.number);
  if (tensor.elements < 0 ||
      static_cast<std::size_t>(tensor.elements) != storage.value().size / number ||
      tensor.strides.size() != tensor.shape.size())
    return bad_tensor("its shape does not fit its size");
  return check_tensor(
      {tensor.number, std::move(tensor.shape), std::move(tensor.strides), tensor.offset,
       storage.value().begin, static_cast<std::size_t>(tensor.elements) * number},
      file.size());
}

}  // namespace tt::checkpoint
