#include "src/trace/cuda/kernel.cuh"

namespace tt::trace::device {

void register_tile() {
  register_for_all_elements<CopyReducer, FirstReducer, SumReducer, MeanReducer,
                            AbsoluteMaxReducer>();
}

}  // namespace tt::trace::device
