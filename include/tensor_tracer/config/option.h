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

/// Tables of options. Each row defines the command-line flag, the key of a JSON file, the help
/// text, the check of the value and the comparison between ranks. Thread: as the fields that the
/// rows point to.
namespace tt::config {

/// The flag --name sets the field to true, --no-name sets it to false.
struct Switch {
  std::optional<bool>* field;
  std::optional<bool>& operator*() const { return *field; }
};

/// A number of bytes. On the command line it may have a unit, for example 10G.
struct Bytes {
  std::optional<std::uint64_t>* field;
  std::optional<std::uint64_t>& operator*() const { return *field; }
};

/// Texts separated by commas.
struct Commas {
  std::vector<std::string>* field;
  std::vector<std::string>& operator*() const { return *field; }
};

/// A pointer to the value of an option.
using Field = std::variant<bool*, int*, std::int64_t*, std::uint64_t*, double*, std::string*,
                           std::vector<std::string>*, std::optional<bool>*, std::optional<int>*,
                           std::optional<double>*, Switch, Bytes, Commas>;

/// Checks a value; of a list, each item. An absent optional value always passes. If `holds` is
/// empty, every value passes.
struct Check {
  std::string complaint = {};  // follows the value in the error: "is not above 0"
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

/// The part of an option that must be the same on all ranks.
enum class Agreement { kNothing, kValue, kPresence };

/// The thing without which an option has no effect.
enum class Needs { kNothing, kPage };

struct Option {
  std::string flag;  // --num-layers
  Field field;
  std::string help;
  Check check = {};
  Agreement agreement = Agreement::kNothing;
  Needs needs = Needs::kNothing;
  bool is_fixed = false;   // a run that resumes from a checkpoint keeps the value
  std::string group = {};  // heading in --help; empty: the first one
};

using Options = std::vector<Option>;

/// The same rows: in this group; with the same values required on all ranks; with values that a
/// resumed run keeps; with this need.
Options in_group(const std::string& group, Options options);
Options agreed(Options options);
Options fixed(Options options);
Options needing(Needs needs, Options options);

/// The rows with these flags, in the order of the table.
Options picked(Options options, const std::vector<std::string>& flags);

/// The rows of all tables, in order.
Options joined(std::initializer_list<Options> tables);

/// The key in a JSON file: "num_layers".
std::string key_of(const Option& option);

/// Null if the option is absent.
nlohmann::json value_of(const Option& option);

/// The value as people write it; a number has all digits that are needed to read it back exactly.
std::string text_of(const nlohmann::json& value);

/// The error of the first wrong value names the flag and the value.
base::Status check(const Options& options);

}  // namespace tt::config
