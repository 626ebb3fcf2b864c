// Passes an idle trace point so many times, or goes through the same loop without it;
// scripts/bench/idle.py counts instructions of both.
#include <ATen/ATen.h>

#include <cstdlib>
#include <string_view>

#include "tensor_tracer/trace/tracer.h"

namespace {

// The tensor's address is made known elsewhere, so that the loop stays a loop.
void touch(const at::Tensor& tensor) { asm volatile("" : : "r"(&tensor) : "memory"); }

}  // namespace

int main(int argc, char** argv) {
  const long passes = argc > 1 ? std::atol(argv[1]) : 0;
  const bool captures = argc > 2 && std::string_view(argv[2]) == "capture";
  tt::trace::Tracer tracer({}, {}, tt::comm::ProcessGroup(), nullptr);
  const at::Tensor hidden = at::zeros({1, 1, 8});
  const tt::points::PlaceKey place;
  tt::trace::Pass pass = tracer.begin({});
  if (captures) {
    for (long i = 0; i < passes; ++i) {
      touch(hidden);
      pass.capture(place, hidden);
    }
  } else {
    for (long i = 0; i < passes; ++i) touch(hidden);
  }
  pass.end_forward();
  return 0;
}
