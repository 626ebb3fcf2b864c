#pragma once

#include <string>
#include <vector>

#include "src/intervene/instance.h"

namespace tt::intervene {

/// Makes one Instance. Owner: program and context outlive it. Thread: one.
class Maker {
 public:
  Maker(const graph::Program& program, const Context& context, const Shape& shape, int layer,
        Constants& constants);
  base::Result<Instance> make();

 private:
  /// One input as the checker is told of it.
  struct Seen {
    Source source = {};
    std::vector<std::int64_t> shape = {};  // logical
    at::ScalarType dtype = at::kFloat;
    bool is_number = false;                       // as eval::Input::is_number
    bool has_gradient = false;                    // may have one
    const trace::Placement* placement = nullptr;  // of its shards; null: whole on every rank
    bool is_part = false;                         // some heads of what is cut
  };

  base::Error wrong(expr::NodeId node, std::string what, std::string remedy) const;

  base::Result<at::Tensor> select(const at::Tensor& x, const Indices& indices,
                                  expr::NodeId subscript) const;

  // sources.cpp
  std::int64_t spot_moment(const graph::Place& place, const Spot& spot) const;
  std::size_t spot_key(const Spot& spot) const;
  base::Result<Seen> see(const graph::Leaf& leaf, std::size_t value);
  base::Result<Seen> see_place(const graph::Leaf& leaf, std::size_t value);
  base::Result<Seen> see_noise(const graph::Leaf& leaf);
  Seen see_parameter(const graph::Leaf& leaf) const;
  Seen see_value(const graph::Leaf& leaf, std::size_t value);
  base::Result<Seen> see_vector(const graph::Leaf& leaf) const;
  base::Result<Seen> see_file(const graph::Leaf& leaf) const;
  base::Result<Seen> see_saved(const graph::Leaf& leaf) const;
  // maker.cpp
  base::Status make_unit(std::size_t index);
  void note_cost(Unit& unit, const std::vector<Seen>& seen) const;
  base::Status check_gradient(std::size_t index, const std::vector<Seen>& seen) const;
  base::Status use_shards(std::size_t index, std::vector<Seen> seen,
                          const eval::Substitutions& known);
  bool fit_to_shards(Seen& seen, const trace::Placement& placement, std::size_t rank_of_result);
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
  Constants& constants_;
  const eval::Limits limits_;  // of each line
  Instance made_;
};

/// "[2, 3]".
std::string shown_shape(const std::vector<std::int64_t>& shape);

/// A tensor without data.
at::Tensor meta_tensor(const std::vector<std::int64_t>& shape, at::ScalarType dtype);

}  // namespace tt::intervene
