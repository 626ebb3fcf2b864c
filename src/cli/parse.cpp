#include "src/cli/parse.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "src/cli/exit_code.h"
#include "tensor_tracer/base/nearest.h"
#include "tensor_tracer/base/printable.h"

namespace tt::cli {
namespace {

std::string nearest_flag(const CLI::App& app, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  std::string best;
  for (const CLI::Option* option : app.get_options({})) {
    for (const std::string& known : option->get_lnames()) {
      const std::string flag = "--" + known;
      if (best.empty() || base::edit_distance(name, flag) < base::edit_distance(name, best))
        best = flag;
    }
  }
  return best;
}

base::Error unknown_word(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining();
  const auto flag =
      std::ranges::find_if(words, [](const std::string& word) { return word.starts_with("-"); });
  if (flag == words.end()) {
    return {"usage", "unexpected word \"" + (words.empty() ? "" : words.front()) + "\"", "",
            "see --help"};
  }
  return {"usage", "unknown flag " + *flag, "", "did you mean " + nearest_flag(app, *flag) + "?"};
}

// The path of the configuration file that was given; empty: none.
std::string configuration_of(const CLI::App& app) {
  const CLI::Option* config = app.get_config_ptr();
  return config != nullptr && config->count() > 0 ? config->as<std::string>() : "";
}

// CLI11's messages say INI, whatever the file's format.
base::Error wrong_configuration(const CLI::App& app, const std::string& what) {
  constexpr std::string_view kUnknownKey = "INI was not able to parse ";
  if (!what.starts_with(kUnknownKey)) return {"usage", what, configuration_of(app), "see --help"};
  const auto as_key = [](std::string flag) {
    std::ranges::replace(flag, '-', '_');
    return '"' + flag + '"';
  };
  const std::string key = what.substr(kUnknownKey.size());
  return {"usage", "unknown key " + as_key(key), configuration_of(app),
          "did you mean " + as_key(nearest_flag(app, "--" + key).substr(2)) + "?"};
}

}  // namespace

base::Result<std::string> parse(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
    return std::string();
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::CallForVersion&) {
    return app.version() + "\n";
  } catch (const CLI::ExtrasError&) {
    return unknown_word(app);
  } catch (const CLI::ConfigError& error) {
    return wrong_configuration(app, error.what());
  } catch (const CLI::ParseError& error) {
    const bool in_file = dynamic_cast<const CLI::FileError*>(&error) != nullptr;
    return base::Error{"usage", error.what(), in_file ? configuration_of(app) : "", "see --help"};
  }
}

int fail(const base::Error& error) {
  std::fprintf(stderr, "tensor-tracer: %s\n", to_string(error).c_str());
  return kExitUsage;
}

int report(const base::Error& error) {
  std::fprintf(stderr, "tensor-tracer: %s\n", base::printable(to_string(error)).c_str());
  return exit_code(error);
}

nlohmann::json given_options(const CLI::App& app) {
  nlohmann::json given = nlohmann::json::object();
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0 || option->get_lnames().empty()) continue;
    const std::vector<std::string>& values = option->results();
    nlohmann::json& value = given[option->get_lnames().front()];
    if (values.size() == 1)
      value = values.front();
    else
      value = values;
  }
  return given;
}

}  // namespace tt::cli
