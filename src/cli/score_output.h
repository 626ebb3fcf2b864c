#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/data/prompted_texts.h"

namespace tt::cli {

/// Scores of texts, in the order of their file. NaN: the text has none.
struct Scores {
  std::string label;           // of the score: "projection", or "projection_difference"
  std::vector<double> values;  // that rank the texts
  std::vector<double> own,
      base;  // projections of text and base response; without one, `base` is empty
};

/// The rank of each text, from 1, by falling score, and of equal scores by the order of the file;
/// 0: the text has no score.
std::vector<std::int64_t> ranks_of(const std::vector<double>& values);

/// Writes the texts of a file as JSONL, each with its score and rank, without those whose rank is
/// at most `dropped`. `texts`: at the first text. The file appears when it is complete. Error: a
/// text cannot be read any more, or the file cannot be written.
base::Status write_scores(const std::string& path, data::PromptedTexts& texts, const Scores& scores,
                          std::int64_t dropped);

/// For --json: number, mean, standard deviation, and a histogram of 20 bins between the smallest
/// and the largest score.
nlohmann::json describe_scores(const Scores& scores);

/// Prints such facts.
void print_scores(const nlohmann::json& facts);

}  // namespace tt::cli
