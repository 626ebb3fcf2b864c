#include "tensor_tracer/data/token_source.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/tokenize/utf8.h"

namespace tt::data {

at::Tensor ByteTokens::read(std::int64_t begin, std::int64_t count) const {
  const at::Tensor bytes = at::empty({count}, at::device(at::kCPU).dtype(at::kByte));
  corpus_.read(begin, {bytes.mutable_data_ptr<std::uint8_t>(), static_cast<std::size_t>(count)});
  return bytes.to(at::kLong);
}

at::Tensor IdTokens::read(std::int64_t begin, std::int64_t count) const {
  return ids_.narrow(0, begin, count).to(at::kLong);
}

double IdTokens::unigram_entropy() const {
  const at::Tensor counts = at::bincount(ids_);
  return at::special_entr(counts.to(at::kDouble) / static_cast<double>(size()))
      .sum()
      .item<double>();
}

base::Result<at::Tensor> tokenize(const TextCorpus& corpus, const tokenize::Tokenizer& tokenizer,
                                  std::optional<std::int64_t> end) {
  std::vector<std::int32_t> all;
  for (std::int64_t number = 0; number < corpus.num_files(); ++number) {
    const std::string_view file = corpus.file(number);
    auto ids = tokenizer.encode(file);
    if (!ids) ids = tokenizer.encode(tokenize::replace_invalid(file));
    if (!ids) {
      return base::invalid_argument(
          "--data-path",
          "file " + std::to_string(number + 1) + " cannot become tokens: " + ids.error().message,
          "leave the file out");
    }
    for (const std::int64_t id : ids.value()) all.push_back(static_cast<std::int32_t>(id));
    if (end) all.push_back(static_cast<std::int32_t>(*end));
  }
  const at::Tensor ids =
      at::empty({static_cast<std::int64_t>(all.size())}, at::device(at::kCPU).dtype(at::kInt));
  std::ranges::copy(all, ids.mutable_data_ptr<std::int32_t>());
  return ids;
}

}  // namespace tt::data
