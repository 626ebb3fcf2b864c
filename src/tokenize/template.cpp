#include "src/tokenize/template.h"

namespace tt::tokenize {

Template Template::read(const JsonField& field) {
  Template made;
  bool has_template = false;
  for (const JsonField& part : sequence_of(field, "processors")) {
    const std::string type = part["type"].text();
    if (type == "ByteLevel") continue;  // corrects offsets only
    if (type != "TemplateProcessing" || has_template) {
      part["type"].refuse("the post-processor " + type +
                          " is unknown or is given twice; known are ByteLevel, "
                          "TemplateProcessing and Sequence");
      continue;
    }
    has_template = true;
    made.add(part);
  }
  return made;
}

void Template::add(const JsonField& processing) {
  bool has_text = false;
  for (const JsonField& piece : processing["single"].items()) {
    if (!piece["Sequence"].is_null()) {
      if (has_text) piece.refuse("the text stands in the template twice");
      has_text = true;
      continue;
    }
    const JsonField token = processing["special_tokens"][piece["SpecialToken"]["id"].text()];
    for (const JsonField& id : token["ids"].items())
      (has_text ? after : before).push_back(id.number());
  }
}

}  // namespace tt::tokenize
