#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "src/data/line_cursor.h"
#include "tensor_tracer/data/jsonl.h"
#include "tensor_tracer/data/prompted_texts.h"

namespace tt::data {

/// The texts of a file of lines.
class PromptedLines : public PromptedTexts {
 public:
  /// `files`: the one file. `is_json`: each line is an object.
  PromptedLines(std::shared_ptr<const TextCorpus> files, std::string path, bool is_json,
                PromptedTextOptions options);
  base::Result<std::optional<PromptedText>> next() override;
  void rewind() override { lines_ = LineCursor(files().file(0)); }
  std::string place() const override { return lines_.place(path_); }
  nlohmann::ordered_json object() const override;

 private:
  base::Error wrong(base::Error error) const;
  base::Status add(const std::string& text, PromptedText& to) const;
  base::Status add_counted(const LineTexts& texts, PromptedText& to) const;

  const std::string path_;
  const bool is_json_;
  const PromptedTextOptions options_;
  LineCursor lines_;
  std::string_view line_;  // the last one
};

}  // namespace tt::data
