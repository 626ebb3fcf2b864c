#include "tensor_tracer/record/query_thread.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

namespace tt::record {
namespace {

// Tells its end.
struct Asked {
  std::promise<void> over;
  ~Asked() { over.set_value(); }
};

TEST(QueryThread, LetsGoOfWhatItCannotOpenAFileFor) {
  const std::string missing = testing::TempDir() + "/query_thread_test_missing.ttrec";
  const std::string wrong = "/" + std::string(5000, 'x');  // which the file system refuses
  for (const std::string& path : {missing, wrong}) {
    QueryThread reader(path);
    auto asked = std::make_shared<Asked>();
    auto over = asked->over.get_future();
    reader.post([asked = std::move(asked)](Recording&) { ADD_FAILURE() << "there is no file"; });
    over.wait();
  }
}

}  // namespace
}  // namespace tt::record
