#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/cli/commands.h"
#include "src/cli/exit_code.h"
#include "src/cli/help_text.h"
#include "src/cli/inspection.h"
#include "src/cli/model_path.h"
#include "src/cli/parse.h"
#include "tensor_tracer/base/printable.h"
#include "tensor_tracer/base/size_text.h"
#include "tensor_tracer/config/option.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/protocol/json_members.h"

namespace tt::cli {
namespace {

using nlohmann::json;
using protocol::member;
using protocol::text_of;

struct InspectOptions {
  std::string path;
  bool lists_tensors = false, verifies = false, as_json = false;
};

// Nothing is printed for an empty text.
void print_row(const char* label, const std::string& text) {
  if (!text.empty()) fmt::print("{:<12}{}\n", label, base::printable(text));
}

std::string size_of(const json& sum) {
  std::vector<std::string> dtypes;
  for (const auto& [name, one] : sum.at("by_dtype").items())
    dtypes.push_back(name + " " + base::size_text(one.at("bytes")));
  return fmt::format("{} in {}: {}", fmt::group_digits(sum.at("count").get<std::uint64_t>()),
                     base::size_text(sum.at("bytes")), fmt::join(dtypes, ", "));
}

// As flags, so that a command line can have them. Sizes are always shown, because the defaults of
// some follow from others.
std::string flags_of(const json& model) {
  const json defaults = config::to_json(config::ModelConfig());
  std::string text;
  for (const auto& [key, value] : model.items()) {
    const bool is_size =
        value.is_number_integer() && !key.starts_with("rope_") && key != "max_position_embeddings";
    if (key == "add_bias_linear" || (!is_size && value == member(defaults, key))) continue;
    std::string flag = key;
    for (char& letter : flag) letter = letter == '_' ? '-' : letter;
    text += (text.empty() ? "--" : " --") + flag;
    if (value != true) text += " " + config::text_of(value);
  }
  if (model.contains("add_bias_linear") && model["add_bias_linear"] == false)
    text += " --disable-bias-linear";
  return text;
}

std::string tokenizer_text(const json& tokenizer) {
  if (tokenizer.is_null()) return "";
  if (const std::string problem = text_of(tokenizer, "problem"); !problem.empty()) return problem;
  if (!tokenizer.contains("size")) {
    const std::string hash = text_of(tokenizer, "hash");
    return text_of(tokenizer, "kind") + (hash.empty() ? "" : ", hash " + hash);
  }
  std::string text = fmt::format("{}, {} ids, hash {}", text_of(tokenizer, "type"),
                                 fmt::group_digits(tokenizer["size"].get<std::int64_t>()),
                                 text_of(tokenizer, "hash"));
  const json& end = tokenizer["end_of_text"];
  if (end.is_object())
    text += fmt::format(", a text ends with {} ({})", text_of(end, "token"),
                        end["id"].get<std::int64_t>());
  return text;
}

std::string run_text(const json& run) {
  const std::string name = text_of(run, "name"), id = text_of(run, "id");
  if (id.empty()) return "";
  return name.empty() || name == id ? id : id + " (" + name + ")";
}

void print_checkpoint(const json& facts) {
  if (facts.is_null()) return;
  const auto time = static_cast<std::time_t>(facts["time"].get<double>());
  std::tm local{};
  char text[32] = "";
  if (::localtime_r(&time, &local) != nullptr) std::strftime(text, sizeof text, "%F %T", &local);
  print_row("step", fmt::format("{}, saved {}", facts["step"].get<std::int64_t>(), text));
  if (facts["valid_loss"].is_number())
    print_row("valid loss", fmt::format("{:.6g}", facts["valid_loss"].get<double>()));
  print_row("run", run_text(facts["run"]));
  const json& parent = facts["parent"];
  if (parent.is_object()) {
    print_row("parent", fmt::format("{}, step {}", run_text(parent),
                                    protocol::natural(parent, "step").value_or(0)));
  }
  print_row("data", text_of(facts, "data"));
  if (facts["mesh"].is_object()) print_row("mesh", facts["mesh"].dump());
  print_row("older",
            fmt::format("{}", fmt::join(facts["older"].get<std::vector<std::string>>(), ", ")));
}

void print_adapter(const json& facts) {
  if (facts.is_null()) return;
  for (const auto& [key, value] : facts.items())
    if (!value.is_null())
      print_row(key == "target_modules" ? "modules" : key.c_str(),
                value.is_string() ? value.get<std::string>() : value.dump());
}

void print_tensors(const json& tensors) {
  std::string layer = "-";
  for (const json& tensor : tensors) {
    const std::string prefix = text_of(tensor, "layer");
    if (prefix != layer)
      fmt::print("\n{}\n", prefix.empty() ? "outside of the layers" : base::printable(prefix));
    layer = prefix;
    std::string name = tensor["name"];
    if (!prefix.empty() && name.starts_with(prefix + ".")) name = name.substr(prefix.size() + 1);
    fmt::print("  {:<44} {:<16} {:<9} {}\n", base::printable(name), tensor["shape"].dump(),
               base::printable(tensor["dtype"]),
               base::printable(fmt::format(
                   "{}", fmt::join(tensor["files"].get<std::vector<std::string>>(), ", "))));
  }
}

void print_facts(const json& facts) {
  print_row("kind", text_of(facts, "kind"));
  print_row("path", text_of(facts, "path"));
  const std::string architecture = text_of(facts, "architecture");
  print_row("family",
            text_of(facts, "family") + (architecture.empty() ? "" : " (" + architecture + ")"));
  print_row("problem", text_of(facts, "problem"));
  print_row("options", flags_of(member(facts, "model")));
  print_adapter(facts["adapter"]);
  print_row("parameters", size_of(facts["parameters"]));
  if (facts["other_tensors"]["count"] != 0) print_row("others", size_of(facts["other_tensors"]));
  for (const json& pair : facts["tied"])
    print_row("tied", pair[0].get<std::string>() + " = " + pair[1].get<std::string>());
  print_row("tokenizer", tokenizer_text(facts["tokenizer"]));
  print_checkpoint(facts["checkpoint"]);
  for (const json& file : facts["files"])
    print_row("file", file["name"].get<std::string>() + ", " + base::size_text(file["bytes"]));
  if (facts.contains("verified")) print_row("verified", "all sizes and checksums are right");
  if (facts.contains("tensors")) print_tensors(facts["tensors"]);
}

base::Status inspect(const InspectOptions& options) {
  const auto model = read_model_path(options.path, "FOLDER");
  if (!model) return model.error();
  if (options.verifies) {
    if (model.value().kind != ModelKind::kCheckpoint)
      return base::invalid_argument("--verify", "only a checkpoint has checksums", "leave it out");
    const auto status = checkpoint::verify_files(model.value().folder, model.value().manifest);
    if (!status) return status;
  }
  const auto table = read_headers(model.value());
  if (!table) return table.error();
  json facts = inspect_model(model.value(), table.value());
  if (options.verifies) facts["verified"] = true;
  if (options.lists_tensors) facts["tensors"] = list_tensors(table.value());
  if (options.as_json)
    fmt::print("{}\n", facts.dump(2, ' ', false, json::error_handler_t::replace));
  else
    print_facts(facts);
  return {};
}

}  // namespace

int run_inspect(int argc, const char* const* argv) {
  InspectOptions options;
  CLI::App app("Show what a model, a checkpoint or a .safetensors file holds (docs/models.md).",
               "tensor-tracer inspect");
  set_help_text(app);
  app.add_option(
         "path", options.path,
         "a checkpoint, a folder of checkpoints or one that contains checkpoints/, a folder of "
         "Hugging Face or PEFT, or a .safetensors file")
      ->required();
  app.add_flag("--tensors", options.lists_tensors, "list all tensors by layer");
  app.add_flag("--verify", options.verifies,
               "read all files of a checkpoint and compare their checksums");
  app.add_flag("--json", options.as_json, "print one JSON object");
  auto parsed = parse(app, argc, argv);
  if (!parsed) return fail(parsed.error());
  if (!parsed.value().empty()) {
    fmt::print("{}", parsed.value());
    return kExitDone;
  }
  const auto status = inspect(options);
  return status ? kExitDone : report(status.error());
}

}  // namespace tt::cli
