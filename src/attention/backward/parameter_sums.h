// Gradients of relative tables, ALiBi slopes and sinks. A thread sums the share of kOrderedQueries queries in the
// accumulation's type and a chunk's in double; chunks are added in one order, whoever computes them. Memory: a few
// times the tables, per thread.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/call/attention_call.h"
#include "core/ordered_sum.h"
#include "qkv/attention/attention_backward.h"

namespace qkv::inline attending {

class ParameterSums {
 public:
  // std::invalid_argument if a gradient has not the shape of its parameter or no type of the accumulation or f64.
  ParameterSums(const AttentionCall& call, const AttentionOptions& options, const AttentionGradients& gradients);

  // What begin() allocates, once and for each thread, and write() when the threads have ended.
  std::size_t shared_bytes(std::int64_t sums) const;
  std::size_t thread_bytes() const;
  std::size_t written_bytes() const;
  // Room for so many threads and, of a sink's gradient in a head, so many sums over queries, before the first of them.
  void begin(int threads, std::int64_t sums);

  // Whether the kernel has to sum anything.
  bool are_wanted() const { return wanted_; }

  // Where a thread's kernel adds the share of kOrderedQueries queries: parameter_count() numbers, which are 0.
  std::byte* share(int worker);
  // Moves that share to that of the thread's chunk.
  void finish_share(int worker);
  // Adds the thread's share of head h of sequence b to the sums, after the shares of `predecessors` chunks of this
  // head.
  void finish_chunk(int worker, std::int64_t b, std::int64_t h, std::int64_t predecessors);
  void abandon() { ordered_sums_.abandon(); }

  // Where the kernel adds to the sums of the sink's gradient from `sum` on, which are 0; nullptr: not wanted.
  double* sink_sums(std::int64_t b, std::int64_t h, std::int64_t sum);

  // Into the gradients, after all chunks.
  void write() const;

 private:
  void add_rows(const TableBias& bias, const double* from, Tensor& sums) const;
  void write_slopes() const;
  void write_sinks() const;

  const AttentionCall& call_;
  const AttentionOptions& options_;
  const AttentionGradients& gradients_;
  bool wanted_ = false;
  std::int64_t count_ = 0;      // of numbers of a head
  std::vector<Tensor> shares_;  // per thread, [numbers]
  std::vector<std::vector<double>> chunks_;
  std::vector<double> heads_;   // [heads][numbers]
  std::vector<double> slopes_;  // [batch][heads]
  std::vector<double> sinks_;   // [batch][heads][sums]
  OrderedSums ordered_sums_;    // of heads
};

}  // namespace qkv::inline attending
