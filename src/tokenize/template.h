#pragma once

#include <cstdint>
#include <vector>

#include "src/tokenize/json_field.h"

namespace tt::tokenize {

/// The tokens that the field `post_processor` puts around a text. Thread: any.
struct Template {
  std::vector<std::int64_t> before, after;

  /// Null: no tokens. Of a template for pairs of texts, only that of one text is read.
  static Template read(const JsonField& field);

 private:
  void add(const JsonField& processing);
};

}  // namespace tt::tokenize
