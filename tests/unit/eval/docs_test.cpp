// docs/expressions.md lists exactly what is admitted.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "src/eval/builtins.h"
#include "src/eval/operator_table.h"

namespace tt::eval {
namespace {

std::string read_section(const std::string& heading) {
  std::ifstream file(std::string(TT_DOCS_DIR) + "/expressions.md");
  std::ostringstream section;
  bool is_inside = false;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("## "))
      is_inside = line == "## " + heading;
    else if (is_inside)
      section << line << '\n';
  return section.str();
}

// "* **Title**: `a`, `b`" -> Title: a, b
std::map<std::string, std::vector<std::string>> read_lists(const std::string& section) {
  std::map<std::string, std::vector<std::string>> lists;
  const std::regex pattern(R"(\*\*([^*]+)\*\*|`([A-Za-z0-9_]+)`)");
  std::string title;
  for (std::sregex_iterator match(section.begin(), section.end(), pattern), end; match != end;
       ++match)
    if ((*match)[1].matched)
      title = (*match)[1];
    else
      lists[title].push_back((*match)[2]);
  return lists;
}

TEST(Docs, ListTheAllowList) {
  std::map<std::string, std::set<std::string>> groups;
  for (const OperatorRow& row : operator_table())
    if (!row.has(kInternal)) groups[std::string(row.group)].insert(row.name);
  groups["Create and convert"].insert(builtin_names().begin(), builtin_names().end());
  std::map<std::string, std::vector<std::string>> admitted;
  for (const auto& [title, names] : groups) admitted[title].assign(names.begin(), names.end());
  EXPECT_EQ(read_lists(read_section("Operators")), admitted);
}

}  // namespace
}  // namespace tt::eval
