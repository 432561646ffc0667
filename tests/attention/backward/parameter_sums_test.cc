// The order in which chunks of keys add to the gradients of tables.
#include "attention/backward/parameter_sums.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace qkv {
namespace {

// Shares whose sum in order is 0, and in any other order is not.
TEST(ParameterSums, ChunksWaitForTheirTurn) {
  const Tensor q = Tensor::zeros({1, 3, 4}, Dtype::f64), k = Tensor::zeros({1, 3000, 4}, Dtype::f64);
  const Tensor table = Tensor::zeros({1, 1}, Dtype::f64);
  const AttentionOptions options{.bias = Bias::table(RelativeTable::clipped(table))};
  Tensor gradient = Tensor::zeros({1, 1}, Dtype::f64);
  const AttentionGradients gradients{.tables = {gradient.view()}};
  const AttentionProblem problem(q, k, k, options);
  ParameterSums sums(problem, options, gradients);
  sums.begin(/*threads=*/3, /*blocks=*/1);
  const double shares[] = {1, 0x1p53, -0x1p53};
  std::atomic<int> begun = 0;
  const auto finish = [&](int chunk) {
    *reinterpret_cast<double*>(sums.block(chunk)) = shares[chunk];
    sums.finish_block(chunk);
    ++begun;
    sums.finish_chunk(chunk, 0, 0, /*predecessors=*/chunk);
  };
  std::thread last(finish, 2), middle(finish, 1);
  while (begun < 2) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for a thread that would not wait
  finish(0);
  last.join();
  middle.join();
  sums.write();
  EXPECT_EQ(gradient.data<double>()[0], 0);
}

}  // namespace
}  // namespace qkv
