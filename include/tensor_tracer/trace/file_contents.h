#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/trace/vectors.h"

namespace tt::trace {

/// The vectors and tensors that plans or programs name. Global rank 0 reads them from files. The
/// other ranks receive them with the plan or program and open no file.
struct FileContents {
  std::map<std::string, std::shared_ptr<const DirectionVector>> vectors;
  std::map<std::pair<std::string, std::string>, at::Tensor> tensors;  // CPU; by file, then tensor
};

/// Broadcasts the contents of the root to every rank. Collective.
void broadcast_contents(const comm::ProcessGroup& group, FileContents& contents, int root);

/// A library that serves received contents and reads no file.
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
