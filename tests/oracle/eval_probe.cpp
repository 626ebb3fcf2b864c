// Evaluates expressions for tests/oracle/test_expressions.py.
//
//     eval_probe DATA_FILE SIZE,SIZE,…
//
// DATA_FILE holds the float64 numbers of the input `data`, row by row. Each line of standard input
// is one expression and gives one line of JSON: shape, dtype and values (hexadecimal floats), or
// error.
#include <ATen/ATen.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tensor_tracer/eval/program.h"

namespace {

using nlohmann::json;

std::vector<std::int64_t> read_shape(const std::string& text) {
  std::vector<std::int64_t> shape;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) shape.push_back(std::stoll(word));
  return shape;
}

at::Tensor read_data(const std::string& path, const std::vector<std::int64_t>& shape) {
  at::Tensor data = at::empty(shape, at::kDouble);
  std::ifstream file(path, std::ios::binary);
  file.read(static_cast<char*>(data.data_ptr()), static_cast<std::streamsize>(data.nbytes()));
  if (!file) throw std::runtime_error(path + " is too short");
  return data;
}

std::string hexadecimal(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%a", value);
  return text;
}

json answer(const std::string& text, const at::Tensor& data) {
  const auto program =
      tt::eval::Program::check(text, {{"data", data.sizes().vec(), data.scalar_type()}});
  if (!program.ok()) return {{"error", program.error().message}};
  const auto result = program.value().run({data});
  if (!result.ok()) return {{"error", result.error().message}};
  const at::Tensor& tensor = result.value();
  const at::Tensor flat = tensor.to(at::kDouble).contiguous().view({-1});
  json values = json::array();
  for (std::int64_t i = 0; i < flat.numel(); ++i)
    values.push_back(hexadecimal(flat.const_data_ptr<double>()[i]));
  return {{"shape", tensor.sizes().vec()},
          {"dtype", c10::toString(tensor.scalar_type())},
          {"values", values}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: eval_probe DATA_FILE SIZE,SIZE,...\n");
    return 2;
  }
  const at::Tensor data = read_data(argv[1], read_shape(argv[2]));
  for (std::string line; std::getline(std::cin, line);)
    std::cout << answer(line, data).dump() << '\n';
  return 0;
}
