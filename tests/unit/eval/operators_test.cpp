#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <set>

#include "src/eval/operator_table.h"

namespace tt::eval {
namespace {

TEST(Operators, ExistAndArePureByTheirSchema) {
  for (const OperatorRow& row : operator_table()) {
    for (const std::string& overload : row.overloads) {
      const auto op = c10::Dispatcher::singleton().findSchema({"aten::" + row.aten_name, overload});
      ASSERT_TRUE(op.has_value()) << row.aten_name << "." << overload;
      EXPECT_FALSE(op->schema().is_mutable()) << row.aten_name << "." << overload;
      EXPECT_FALSE(op->schema().name().ends_with("_")) << row.aten_name;
      EXPECT_FALSE(op->schema().is_vararg()) << row.aten_name;
      for (const c10::Argument& argument : op->schema().arguments())
        EXPECT_NE(argument.name(), "generator") << row.aten_name << ": random";
    }
  }
}

TEST(Operators, GiveTensorsOnly) {
  for (const OperatorRow& row : operator_table()) {
    for (const std::string& overload : row.overloads) {
      const auto op = c10::Dispatcher::singleton().findSchema({"aten::" + row.aten_name, overload});
      ASSERT_TRUE(op.has_value());
      for (const c10::Argument& result : op->schema().returns()) {
        const bool is_list = result.type()->kind() == c10::TypeKind::ListType;
        EXPECT_TRUE(is_list || result.type()->kind() == c10::TypeKind::TensorType) << row.aten_name;
        EXPECT_EQ(is_list, row.has(kParts)) << row.aten_name;
      }
    }
  }
}

TEST(Operators, AreMany) {
  std::set<std::string> names;
  for (const OperatorRow& row : operator_table())
    if (!row.has(kInternal)) names.insert(row.name);
  EXPECT_GE(names.size(), 150U);
}

TEST(Operators, HoldNothingWhoseShapeDependsOnTheData) {
  for (const char* name : {"nonzero", "argwhere", "masked_select", "unique", "bincount", "item",
                           "index", "index_put", "as_strided", "empty", "rand", "histc"})
    EXPECT_TRUE(find_operator(name).empty()) << name;
}

}  // namespace
}  // namespace tt::eval
