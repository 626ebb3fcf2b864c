#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/intervene/layer_draft.h"

namespace tt::intervene {

/// Checks the writes, saves and skips of a program against its compiled values, and adds the writes
/// to the draft, which must outlive it. REQUIRES: all values are compiled. Thread: one.
class EffectCompiler {
 public:
  explicit EffectCompiler(LayerDraft& draft) : draft_(draft) {}
  base::Status compile(std::size_t effect);

 private:
  base::Status add_write(std::size_t effect);
  base::Status check_fit(const graph::Effect& effect, const std::vector<std::int64_t>& target);
  WritePath path_of(const graph::Effect& effect, const Write& write) const;
  void find_region(Write& write) const;
  base::Status check_where(const graph::Effect& effect, bool has_no_rows) const;
  base::Status check_save(const graph::Effect& effect) const;
  base::Status check_decision(const graph::Effect& effect, const std::string& what) const;
  base::Status check_skip(const graph::Effect& effect) const;

  LayerDraft& draft_;
};

}  // namespace tt::intervene
