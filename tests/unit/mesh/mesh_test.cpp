#include "tensor_tracer/mesh/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor_tracer/base/check.h"

namespace tt::mesh {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// tensor 2, pipeline 3, data 4: every axis has a size of its own, so that no two can be swapped.
constexpr MeshShape kShape{.tensor = 2, .pipeline = 3, .data = 4};

TEST(Mesh, DataTakesTheRest) {
  const auto shape = fit_mesh(24, 2, 3);
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape.value().tensor, 2);
  EXPECT_EQ(shape.value().pipeline, 3);
  EXPECT_EQ(shape.value().data, 4);
  EXPECT_EQ(shape.value().world_size(), 24);
}

TEST(Mesh, MisfitNamesAllNumbers) {
  const auto odd = fit_mesh(10, 2, 3);
  ASSERT_FALSE(odd.ok());
  EXPECT_EQ(to_string(odd.error()),
            "mesh: world size 10, tensor-parallel size 2, pipeline-parallel size 3: 2 x 3 = 6 does "
            "not divide 10; start a multiple of 6 ranks or change --tensor-model-parallel-size");
  for (const auto& [world, tensor, pipeline] :
       {std::tuple{0, 1, 1}, std::tuple{4, 0, 1}, std::tuple{4, 1, -1}}) {
    const auto shape = fit_mesh(world, tensor, pipeline);
    ASSERT_FALSE(shape.ok());
    EXPECT_THAT(shape.error().message,
                AllOf(HasSubstr("world size " + std::to_string(world)),
                      HasSubstr("tensor-parallel size " + std::to_string(tensor)),
                      HasSubstr("pipeline-parallel size " + std::to_string(pipeline)),
                      HasSubstr("at least 1")));
  }
  EXPECT_FALSE(fit_mesh(2, 1 << 20, 1 << 20).ok());
}

TEST(Mesh, OrderIsMegatrons) {
  EXPECT_EQ(coordinates_of(kShape, 1), (Coordinates{.tensor = 1}));
  EXPECT_EQ(coordinates_of(kShape, 2), (Coordinates{.data = 1}));
  EXPECT_EQ(coordinates_of(kShape, 8), (Coordinates{.pipeline = 1}));
  EXPECT_EQ(coordinates_of(kShape, 23), (Coordinates{.tensor = 1, .pipeline = 2, .data = 3}));
}

TEST(Mesh, RankAndCoordinatesAreInverse) {
  for (int rank = 0; rank < kShape.world_size(); ++rank)
    EXPECT_EQ(rank_of(kShape, coordinates_of(kShape, rank)), rank);
}

TEST(Mesh, OutsideIsACheck) {
  EXPECT_THROW(coordinates_of(kShape, 24), base::CheckError);
  EXPECT_THROW(coordinates_of(kShape, -1), base::CheckError);
  EXPECT_THROW(rank_of(kShape, {.tensor = 2}), base::CheckError);
  EXPECT_THROW(rank_of(kShape, {.pipeline = 3}), base::CheckError);
  EXPECT_THROW(rank_of(kShape, {.data = -1}), base::CheckError);
}

TEST(Mesh, GroupsAlongEachAxis) {
  // Rank 13 is tensor 1, pipeline 1, data 2.
  EXPECT_THAT(group_along(kShape, 13, Axis::kTensor), ElementsAre(12, 13));
  EXPECT_THAT(group_along(kShape, 13, Axis::kData), ElementsAre(9, 11, 13, 15));
  EXPECT_THAT(group_along(kShape, 13, Axis::kPipeline), ElementsAre(5, 13, 21));
}

TEST(Mesh, DescribesAxesAboveOne) {
  EXPECT_EQ(describe(kShape, 13), "rank 13 (tensor 1, pipeline 1, data 2)");
  EXPECT_EQ(describe({.tensor = 2, .data = 2}, 3), "rank 3 (tensor 1, data 1)");
  EXPECT_EQ(describe({}, 0), "rank 0");
}

}  // namespace
}  // namespace tt::mesh
