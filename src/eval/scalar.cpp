#include "src/eval/scalar.h"

#include <cmath>
#include <utility>

namespace tt::eval {
namespace {

using expr::Operator;

constexpr const char* kZeroDivision = "division by zero";
constexpr const char* kOverflow = "the integer does not fit into 64 bits";

std::nullopt_t refuse(std::string& problem, std::string why) {
  problem = std::move(why);
  return std::nullopt;
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// The result has the sign of b.
double remainder(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : std::copysign(rest, rest == 0 ? b : rest);
}

// As in Python: uses the remainder, so that -1 // inf is -1.
double floor_divide(double a, double b) {
  const double rest = std::fmod(a, b);
  const double quotient = (a - rest) / b - (rest != 0 && (rest < 0) != (b < 0) ? 1 : 0);
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double down = std::floor(quotient);
  return quotient - down > 0.5 ? down + 1 : down;
}

std::optional<Value> power(std::int64_t base, std::int64_t exponent, std::string& problem) {
  if (exponent < 0) {
    if (base == 0) return refuse(problem, kZeroDivision);
    return Value{std::pow(static_cast<double>(base), static_cast<double>(exponent))};
  }
  std::int64_t result = 1;
  if (base == 1 || base == 0) exponent = exponent == 0 ? 0 : 1;
  if (base == -1) exponent %= 2;
  for (; exponent > 0; --exponent)
    if (__builtin_mul_overflow(result, base, &result)) return refuse(problem, kOverflow);
  return Value{result};
}

std::optional<Value> on_integers(Operator op, std::int64_t a, std::int64_t b,
                                 std::string& problem) {
  std::int64_t result = 0;
  bool overflow = false;
  const bool divides = op == Operator::kFloorDivide || op == Operator::kRemainder;
  if (divides && b == 0) return refuse(problem, kZeroDivision);
  if (divides && a == INT64_MIN && b == -1) return refuse(problem, kOverflow);
  switch (op) {
    case Operator::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Operator::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Operator::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Operator::kFloorDivide:
      result = floor_divide(a, b);
      break;
    case Operator::kRemainder:
      result = a - floor_divide(a, b) * b;
      break;
    case Operator::kPower:
      return power(a, b, problem);
    default:
      return std::nullopt;
  }
  if (overflow) return refuse(problem, kOverflow);
  return Value{result};
}

std::optional<Value> on_doubles(Operator op, double a, double b, std::string& problem) {
  const bool divides =
      op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kRemainder;
  if ((divides && b == 0) || (op == Operator::kPower && a == 0 && b < 0))
    return refuse(problem, kZeroDivision);
  if (op == Operator::kPower && a < 0 && b != std::floor(b))
    return refuse(problem, "a negative number to a broken power is no real number");
  switch (op) {
    case Operator::kAdd:
      return Value{a + b};
    case Operator::kSubtract:
      return Value{a - b};
    case Operator::kMultiply:
      return Value{a * b};
    case Operator::kDivide:
      return Value{a / b};
    case Operator::kFloorDivide:
      return Value{floor_divide(a, b)};
    case Operator::kRemainder:
      return Value{remainder(a, b)};
    case Operator::kPower:
      return Value{std::pow(a, b)};
    default:
      return std::nullopt;
  }
}

// A type that represents every 64-bit integer exactly, because Python compares integers and floats
// exactly.
long double to_exact(const Value& value) {
  if (const auto* real = value.get<double>()) return *real;
  return static_cast<long double>(value.to_integer());
}

std::optional<bool> compare(Operator op, const Value& left, const Value& right) {
  const auto order = to_exact(left) <=> to_exact(right);
  switch (op) {
    case Operator::kEqual:
      return order == 0;
    case Operator::kNotEqual:
      return order != 0;
    case Operator::kLess:
      return order < 0;
    case Operator::kLessEqual:
      return order <= 0;
    case Operator::kGreater:
      return order > 0;
    case Operator::kGreaterEqual:
      return order >= 0;
    default:
      return std::nullopt;
  }
}

std::optional<Value> on_bits(Operator op, const Value& left, const Value& right) {
  const std::int64_t a = left.to_integer();
  const std::int64_t b = right.to_integer();
  const std::int64_t bits = op == Operator::kAnd ? a & b : op == Operator::kOr ? a | b : a ^ b;
  if (left.is<bool>() && right.is<bool>()) return Value{bits != 0};
  return Value{bits};
}

}  // namespace

std::optional<Value> calculate(Operator op, const Value& left, const Value& right,
                               std::string& problem) {
  if (const auto truth = compare(op, left, right)) return Value{*truth};
  const bool has_double = left.is<double>() || right.is<double>();
  const bool is_bitwise = op == Operator::kAnd || op == Operator::kOr || op == Operator::kXor;
  if (op == Operator::kMatmul || (is_bitwise && has_double))
    return refuse(problem, std::string(expr::to_string(op)) + " does not work on these numbers");
  if (is_bitwise) return on_bits(op, left, right);
  if (has_double || op == Operator::kDivide)
    return on_doubles(op, left.to_double(), right.to_double(), problem);
  return on_integers(op, left.to_integer(), right.to_integer(), problem);
}

std::optional<Value> calculate(Operator op, const Value& operand, std::string& problem) {
  if (operand.is<double>()) {
    if (op == Operator::kPositive) return operand;
    if (op == Operator::kNegative) return Value{-*operand.get<double>()};
    return refuse(problem, "~ does not work on a float");
  }
  const std::int64_t number = operand.to_integer();
  if (op == Operator::kPositive) return Value{number};
  if (op == Operator::kInvert) return Value{~number};
  if (number == INT64_MIN) return refuse(problem, kOverflow);
  return Value{-number};
}

}  // namespace tt::eval
