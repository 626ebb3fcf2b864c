#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tt::points {

/// A prompt set: `rows` texts, padded to the `tokens` of the longest text. They run in separate
/// passes.
struct PromptShape {
  std::string name;
  std::int64_t rows = 1;
  std::int64_t tokens = 1;
  bool is_removed = false;         // no plan and no program may name it; no pass runs
  std::int64_t shortest = tokens;  // tokens of the shortest text
};

/// The prompt sets of a run, which plans and programs may name. Set number n is now()[n - 1]; a
/// removed set keeps its number, so that a number never changes its meaning. Copies share the list.
/// Thread: any.
class PromptSets {
 public:
  using List = std::vector<PromptShape>;

  explicit PromptSets(List sets = {});

  /// The sets at this moment; the list never changes.
  std::shared_ptr<const List> now() const;
  void replace(List sets);

  /// The number of the set; nullopt: there is no such set, or it was removed.
  std::optional<std::uint32_t> find(std::string_view name) const;
  /// The names that find() knows.
  std::vector<std::string> names() const;

 private:
  struct Shared {
    std::mutex mutex;
    std::shared_ptr<const List> list;  // guarded by mutex
  };
  std::shared_ptr<Shared> shared_;
};

}  // namespace tt::points
