// docs/expressions.md lists exactly what is admitted.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "tensor_tracer/eval/operators.h"

namespace tt::eval {
namespace {

std::string read_section(const std::string& heading) {
  std::ifstream file(std::string(TT_DOCS_DIR) + "/expressions.md");
  std::ostringstream section;
  bool is_inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## "))
      is_inside = line == "## " + heading;
    else if (is_inside)
      section << line << '\n';
  }
  return section.str();
}

// "* **Title**: `a`, `b`" -> Title: a, b
std::map<std::string, std::vector<std::string>> read_lists(const std::string& section) {
  std::map<std::string, std::vector<std::string>> lists;
  const std::regex pattern(R"(\*\*([^*]+)\*\*|`([A-Za-z0-9_]+)`)");
  std::string title;
  for (std::sregex_iterator match(section.begin(), section.end(), pattern), end; match != end;
       ++match) {
    if ((*match)[1].matched)
      title = (*match)[1];
    else
      lists[title].push_back((*match)[2]);
  }
  return lists;
}

TEST(Docs, ListTheAllowList) {
  const auto lists = read_lists(read_section("Operators"));
  const auto groups = operator_groups();
  EXPECT_EQ(lists.size(), groups.size());
  for (const OperatorGroup& group : groups) {
    ASSERT_TRUE(lists.contains(group.title)) << group.title;
    EXPECT_EQ(lists.at(group.title), group.names) << group.title;
  }
}

}  // namespace
}  // namespace tt::eval
