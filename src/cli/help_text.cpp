#include "src/cli/help_text.h"

#include <memory>
#include <string>

namespace tt::cli {
namespace {

class HelpText : public CLI::Formatter {
 public:
  HelpText() {
    label("OPTIONS", "flags");
    label("SUBCOMMAND", "command");
    label("SUBCOMMANDS", "command");
    label("Options", "Flags");
    label("Positionals", "Arguments");
    label("Subcommands", "Commands");
    label("REQUIRED", "(required)");
  }

  // CLI11 writes "--no-print-url{false}" for a flag that switches off.
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::string name = CLI::Formatter::make_option_name(option, is_positional);
    for (std::size_t at = name.find('{'); at != std::string::npos; at = name.find('{', at))
      name.erase(at, name.find('}', at) - at + 1);
    return name;
  }
};

}  // namespace

void set_help_text(CLI::App& app) {
  app.formatter(std::make_shared<HelpText>());
  app.set_help_flag("-h,--help", "print this help and exit");
}

}  // namespace tt::cli
