#include "src/intervene/program_cache.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "tensor_tracer/intervene/engine.h"

namespace tt::intervene {
namespace {

// Limit for the files and constants of all cached programs.
constexpr std::size_t kMaxBytes = std::size_t{64} << 20U;

std::size_t bytes_of(const CompiledProgram& program) {
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : program.contents.tensors) bytes += tensor.nbytes();
  for (const LayerSpecialization& specialized : program.specialization->layers) {
    for (const CompiledValue& value : specialized.values)
      if (value.program) bytes += value.program->constant_bytes();
  }
  return bytes;
}

bool is_same(const trace::DirectionVector& a, const trace::DirectionVector& b) {
  return &a == &b || (a.has_embedding_row == b.has_embedding_row && a.rows == b.rows);
}

// True if the files of the program have not changed since it was compiled.
bool is_current(const trace::FileContents& contents, const Context& context) {
  for (const auto& [name, vector] : contents.vectors) {
    const auto now = context.vectors->find(name);
    if (!now || !is_same(*vector, *now.value())) return false;
  }
  for (const auto& [name, tensor] : contents.tensors) {
    const auto now = context.files->find(name.first, name.second);
    if (!now || !at::equal(now.value().to(context.dtype), tensor)) return false;
  }
  return true;
}

// True if no prompt set that the program names was removed.
bool has_prompt_sets(const graph::Schedule& when, const points::PromptSets& sets) {
  return std::ranges::all_of(
      when.prompt_sets,
      [&sets](const std::string& name) { return name == "*" || sets.find(name).has_value(); });
}

}  // namespace

std::shared_ptr<ProgramCache> make_program_cache() { return std::make_shared<ProgramCache>(); }

base::Result<nlohmann::json> check_program(const nlohmann::json& program, const Context& context) {
  auto compiled = context.programs->compile(program, context);
  if (!compiled) return compiled.error();
  return compiled.value()->form;
}

base::Status check_generation(const nlohmann::json& program, const Context& context) {
  auto compiled = context.programs->compile(program, context);
  return compiled ? compiled.value()->generation : base::Status(compiled.error());
}

base::Result<std::shared_ptr<const CompiledProgram>> ProgramCache::compile(
    const nlohmann::json& program, const Context& context) {
  const std::string source = source_of(program);
  auto known = take(source, context.tensor_rank);
  if (known == nullptr || !is_current(known->contents, context) ||
      !has_prompt_sets(known->program.when, context.model.prompt_sets)) {
    auto compiled = compile_program(program, context);
    const std::lock_guard lock(mutex_);
    ++compiled_;
    if (!compiled) return compiled.error();
    known = std::move(compiled).value();
  }
  keep({context.tensor_rank, bytes_of(*known), known});
  return known;
}

std::int64_t ProgramCache::num_compiled() const {
  const std::lock_guard lock(mutex_);
  return compiled_;
}

// Removes and returns the entry; the caller adds it again as the latest.
std::shared_ptr<const CompiledProgram> ProgramCache::take(const std::string& source,
                                                          int tensor_rank) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.tensor_rank == tensor_rank && entry.program->source == source;
  });
  if (found == entries_.end()) return nullptr;
  auto program = std::move(found->program);
  bytes_ -= found->bytes;
  entries_.erase(found);
  return program;
}

void ProgramCache::keep(Entry entry) {
  const std::lock_guard lock(mutex_);
  bytes_ += entry.bytes;
  entries_.push_back(std::move(entry));
  while (entries_.size() > kMaxPrograms || bytes_ > kMaxBytes) {
    bytes_ -= entries_.front().bytes;
    entries_.pop_front();
  }
}

}  // namespace tt::intervene
