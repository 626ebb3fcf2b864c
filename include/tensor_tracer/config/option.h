#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tensor_tracer/base/result.h"

/// Tables of options. From a row come the command-line flag, the key of a JSON file, the help text,
/// the check of the value and the comparison between ranks. Thread: as the fields that rows point
/// to.
namespace tt::config {

/// The flag --name sets it, --no-name clears it.
struct Switch {
  std::optional<bool>* field;
  std::optional<bool>& operator*() const { return *field; }
};

/// Bytes, with a unit such as 10G on the command line.
struct Bytes {
  std::uint64_t* field;
  std::uint64_t& operator*() const { return *field; }
};

/// Texts with commas between them.
struct Commas {
  std::vector<std::string>* field;
  std::vector<std::string>& operator*() const { return *field; }
};

/// Where the value of an option is.
using Field = std::variant<bool*, int*, std::int64_t*, std::uint64_t*, double*, std::string*,
                           std::vector<std::string>*, std::optional<bool>*, std::optional<int>*,
                           std::optional<double>*, Switch, Bytes, Commas>;

/// Tells right values from wrong ones, of a list each. An absent optional value is always right,
/// and so is every value where `holds` is empty.
struct Check {
  std::string complaint = {};  // behind the value: "is not above 0"
  std::function<bool(const nlohmann::json& value)> holds = {};
};

Check positive();
Check not_negative();
/// In [0, 1).
Check share();
/// In [least, most].
Check within(double least, double most);
Check one_of(std::vector<std::string> names);
Check existing_file();
Check number(std::string complaint, std::function<bool(double)> holds);
Check text(std::string complaint, std::function<bool(const std::string&)> holds);

/// What must be the same on all ranks.
enum class Agreement { kNothing, kValue, kPresence };

/// What an option has no effect without. kAudience: a page, a recording or a program.
enum class Needs { kNothing, kRecording, kPage, kAudience };

struct Option {
  std::string flag;  // --num-layers
  Field field;
  std::string help;
  Check check = {};
  Agreement agreement = Agreement::kNothing;
  Needs needs = Needs::kNothing;
  std::string group = {};  // of --help; empty: the first one
};

using Options = std::vector<Option>;

/// The same rows, with this group; with values that are the same on all ranks; with this need.
Options in_group(const std::string& group, Options options);
Options agreed(Options options);
Options needing(Needs needs, Options options);

/// The rows of all tables, in their order.
Options joined(std::initializer_list<Options> tables);

/// The key in a JSON file: "num_layers".
std::string key_of(const Option& option);

/// null: absent.
nlohmann::json value_of(const Option& option);

/// As people write it; numbers with all digits that matter.
std::string text_of(const nlohmann::json& value);

/// The error of the first wrong value names its flag and the value.
base::Status check(const Options& options);

}  // namespace tt::config
