#pragma once

#include <string>
#include <vector>

#include "src/intervene/specialization.h"

namespace tt::intervene {

/// Makes one LayerSpecialization. Owner: program and context outlive it. Thread: one.
class Compiler {
 public:
  Compiler(const graph::Program& program, const Context& context, const Shape& shape, int layer,
           trace::FileContents& contents);
  base::Result<LayerSpecialization> make();

 private:
  /// One input as the checker is told of it.
  struct InputInfo {
    Source source = {};
    std::vector<std::int64_t> shape = {};  // logical
    at::ScalarType dtype = at::kFloat;
    bool is_number = false;                      // as eval::Input::is_number
    bool has_gradient = false;                   // may have one
    const mesh::Placement* placement = nullptr;  // of its shards; null: whole on every rank
    bool is_part = false;                        // some heads of what is cut
  };

  base::Error wrong(expr::NodeId node, std::string what, std::string remedy) const;

  base::Result<at::Tensor> select(const at::Tensor& x, const Indices& indices,
                                  expr::NodeId subscript) const;

  // sources.cpp
  std::int64_t moment_of_place(const graph::Place& place, const PlaceRef& ref) const;
  std::size_t key_of_place(const PlaceRef& ref) const;
  base::Result<InputInfo> see(const graph::Leaf& leaf, std::size_t value);
  base::Result<InputInfo> see_place(const graph::Leaf& leaf, std::size_t value);
  base::Result<InputInfo> see_noise(const graph::Leaf& leaf);
  InputInfo see_parameter(const graph::Leaf& leaf) const;
  InputInfo see_value(const graph::Leaf& leaf, std::size_t value);
  base::Result<InputInfo> see_vector(const graph::Leaf& leaf) const;
  base::Result<InputInfo> see_file(const graph::Leaf& leaf) const;
  base::Result<InputInfo> see_saved(const graph::Leaf& leaf) const;
  // maker.cpp
  base::Status make_unit(std::size_t index);
  void note_cost(CompiledValue& unit, const std::vector<InputInfo>& seen) const;
  base::Status check_gradient(std::size_t index, const std::vector<InputInfo>& seen) const;
  base::Status use_shards(std::size_t index, std::vector<InputInfo> seen,
                          const eval::Substitutions& known);
  bool fit_to_shards(InputInfo& seen, const mesh::Placement& placement, std::size_t rank_of_result);
  // writes.cpp
  base::Status add_write(std::size_t effect);
  base::Status check_fit(const graph::Effect& effect, const std::vector<std::int64_t>& target);
  WritePath path_of(const graph::Effect& effect, const Write& write) const;
  void find_region(Write& write) const;
  base::Status check_where(const graph::Effect& effect, bool has_no_rows) const;
  base::Status check_save(const graph::Effect& effect) const;
  base::Status check_decision(const graph::Effect& effect, const std::string& what) const;
  base::Status check_skip(const graph::Effect& effect) const;

  const graph::Program& program_;
  const Context& context_;
  trace::FileContents& contents_;
  const eval::Limits limits_;  // of each line
  LayerSpecialization made_;
};

/// "[2, 3]".
std::string shown_shape(const std::vector<std::int64_t>& shape);

/// A tensor without data.
at::Tensor meta_tensor(const std::vector<std::int64_t>& shape, at::ScalarType dtype);

}  // namespace tt::intervene
