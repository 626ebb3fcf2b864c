#include "tensor_tracer/vectors/text_spreader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "tensor_tracer/comm/collectives.h"

namespace tt::vectors {
namespace {

using nlohmann::json;

constexpr std::int64_t kBatchesInWindow = 8;  // from which texts of one length are chosen

std::string packed(const std::vector<NumberedText>& window) {
  json all = json::array();
  for (const NumberedText& one : window)
    all.push_back({one.number, one.text.ids, one.text.response});
  std::string text;
  json::to_msgpack(all, text);
  return text;
}

std::vector<NumberedText> unpacked(const std::string& text) {
  std::vector<NumberedText> window;
  for (const json& one : json::from_msgpack(text)) {
    NumberedText& made = window.emplace_back();
    made.number = one.at(0);
    made.text.ids = one.at(1).get<std::vector<std::int64_t>>();
    made.text.response = one.at(2).get<std::vector<std::pair<std::int64_t, std::int64_t>>>();
  }
  return window;
}

}  // namespace

data::PromptedText next_text(data::PromptedTexts& texts, std::int64_t most) {
  auto read = texts.next();
  if (!read) throw std::runtime_error(to_string(read.error()));
  if (!read.value()) throw std::runtime_error("a file was cut off while it was read");
  read.value()->cut(most);
  return std::move(*read.value());
}

// The longest texts first.
std::vector<NumberedText> TextSpreader::pull_window(const Pull& pull) const {
  std::vector<NumberedText> window;
  const std::int64_t size = batch_size_ * groups_.shape.data * kBatchesInWindow;
  while (std::ssize(window) < size) {
    auto one = pull();
    if (!one) break;
    window.push_back(std::move(*one));
  }
  std::ranges::stable_sort(window, std::ranges::greater(),
                           [](const NumberedText& one) { return one.text.length(); });
  return window;
}

void TextSpreader::run(const Pull& pull, const Visit& visit) const {
  const auto replicas = static_cast<std::size_t>(groups_.shape.data);
  const auto replica = static_cast<std::size_t>(groups_.coordinates.data);
  const std::size_t round = static_cast<std::size_t>(batch_size_) * replicas;
  for (;;) {
    std::string text;
    if (groups_.world.rank() == 0) text = packed(pull_window(pull));
    comm::broadcast_text(groups_.world, text, 0);
    std::vector<NumberedText> window = unpacked(text);
    if (window.empty()) return;
    for (std::size_t first = 0; first < window.size(); first += round) {
      std::vector<NumberedText> own;
      const std::size_t end = std::min(first + round, window.size());
      for (std::size_t i = first + replica; i < end; i += replicas)
        own.push_back(std::move(window[i]));
      visit(std::move(own));
    }
  }
}

}  // namespace tt::vectors
