#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/trace/vectors.h"

namespace tt::trace {

/// The vectors and tensors that plans or programs name, as global rank 0 read them from files. The
/// other ranks receive them with the plan or program and open no file.
struct FileContents {
  std::map<std::string, std::shared_ptr<const DirectionVector>> vectors;
  std::map<std::pair<std::string, std::string>, at::Tensor> tensors;  // by file and name in it; CPU
};

/// Gives every rank the contents of the root. Collective.
void broadcast_contents(const comm::ProcessGroup& group, FileContents& contents, int root);

/// A library that holds contents and reads no file.
class ReceivedFiles : public VectorLibrary, public TensorFiles {
 public:
  explicit ReceivedFiles(FileContents contents) : contents_(std::move(contents)) {}
  std::vector<std::string> names() override;
  base::Result<std::shared_ptr<const DirectionVector>> find(const std::string& name) override;
  base::Result<at::Tensor> find(const std::string& file, const std::string& name) override;

 private:
  const FileContents contents_;
};

}  // namespace tt::trace
