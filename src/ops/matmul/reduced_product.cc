// Rounds rows, and cuts products of them into tasks.
#include "ops/matmul/reduced_product.h"

#include <algorithm>

#include "core/stop.h"
#include "ops/matmul/panel_tasks.h"

namespace qkv::inline ops {
namespace {

constexpr std::int64_t kRoundedRows = 32;  // of a task
// What rows of a task take, about: they stay in L2 while panel after panel passes by, and beside them the panel and the
// next one, 2 x 192 KiB at a depth of 3,072.
constexpr std::int64_t kTaskRowBytes = 13 << 16;
// Of each thread: neighbouring panels are one task, as each fetches the next.
constexpr std::int64_t kTasksOfThread = 6;

// Blocks of m rows are of one size, from two thirds to one and a half times what a task's should take.
std::int64_t rows_of_task(std::int64_t m, std::int64_t words) {
  const std::int64_t bytes = m * words * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t blocks = std::max(divide_up(m, kTaskRows), (bytes + kTaskRowBytes / 2) / kTaskRowBytes);
  return divide_up(divide_up(m, blocks), kRoundedRows) * kRoundedRows;
}

// Calls product(row, rows, column, worker) for rows of tasks and panels from a column on.
template <class Product>
void for_each_reduced_panel(std::int64_t m, std::int64_t task_rows, const PackedMatrix& b, int threads,
                            const Product& product) {
  const std::int64_t width = b.panel_columns(), panels = divide_up(b.columns(), width),
                     shares = kTasksOfThread * workers(threads);
  for_each_panel(
      m, b, Columns(b), task_rows, threads,
      [&](std::int64_t row, std::int64_t rows, std::int64_t panel, int worker) {
        product(row, rows, panel * width, worker);
      },
      std::clamp(divide_up(m, task_rows) * panels / shares, std::int64_t{1}, panels));
}

// The product of some rows from `row` on with the panel of b that begins at `column`.
PanelProduct<float, BFloat16> panel_product(const RoundedRows& a, std::int64_t row, std::int64_t rows,
                                            const AffineOperands& b, std::int64_t column) {
  const std::int64_t width = b.weight.panel_columns();
  return {.left = a.row(row),
          .left_stride = a.words(),
          .left_step = 1,
          .rows = rows,
          .panel = b.weight.panels().data<BFloat16>() + column / width * b.weight.panels().stride(0),
          .depth = a.form().depth(a.depth()),
          .out = nullptr,
          .out_stride = 0,
          .columns = std::min(width, b.weight.columns() - column),
          .bias = b.bias ? b.bias.data<float>() + column : nullptr,
          .accumulate = false};
}

// The first `m` rows of a.
void multiply(const RoundedRows& a, std::int64_t m, std::int64_t task_rows, const PackedMatrix& b,
              const MutableTensorView& out, const MatmulOptions& options) {
  WideRoom wide(a.form().group == 1 ? std::min(m, task_rows) : 0, b.panel_columns(), options.threads);
  for_each_reduced_panel(
      m, task_rows, b, options.threads, [&](std::int64_t row, std::int64_t rows, std::int64_t column, int worker) {
        PanelProduct<float, BFloat16> product = panel_product(a, row, rows, {b, options.bias}, column);
        product.out = out.data<float>() + row * out.stride(0) + column;
        product.out_stride = out.stride(0);
        product.accumulate = options.accumulate;
        product.wide = wide.of(worker);
        a.form().multiply(product);
      });
}

void round_rows(const TensorView& x, int threads, RoundedRows& to) {
  const std::int64_t rows = x.size(0), depth = x.size(1), step = x.stride(0);
  const ReducedForm& form = to.form();
  threads = worth_sharing(threads, 0, static_cast<double>(rows * depth) * sizeof(float));
  parallel_for(divide_up(rows, kRoundedRows), threads, [&](std::int64_t task, int) {
    check_stop();
    const std::int64_t row = task * kRoundedRows;
    form.round_rows({.from = x.data<float>() + row * step,
                     .row_step = step,
                     .rows = std::min(kRoundedRows, rows - row),
                     .depth = depth,
                     .filled = form.depth(depth),
                     .to = to.row(row),
                     .to_step = to.words()});
  });
}

// m rows, so many at a time that those of a thread stay in its cache, rounded: round(first, rows, to).
template <class Round>
void multiply_blocks_of_rows(std::int64_t m, const PackedMatrix& b, const MutableTensorView& out,
                             const MatmulOptions& options, const Round& round) {
  const ReducedForm form = reduced_form(b.storage());
  check_panels(b, form.columns, form.group);
  if (m == 0 || b.columns() == 0) return;
  const std::int64_t task_rows = rows_of_task(m, form.words(b.rows())),
                     most = std::min(m, task_rows * workers(options.threads));
  RoundedRows rounded(most, b.rows(), b.storage());
  for (std::int64_t begin = 0; begin < m; begin += most) {
    const std::int64_t rows = std::min(most, m - begin);
    round(begin, rows, rounded);
    multiply(rounded, rows, task_rows, b, out.slice(0, begin, begin + rows), options);
  }
}

}  // namespace

RoundedRows::RoundedRows(std::int64_t rows, std::int64_t depth, WeightStorage storage)
    : form_(reduced_form(storage)),
      rows_(rows),
      depth_(depth),
      data_(Tensor::uninitialized({form_.rows(rows), form_.words(depth)})) {}

RoundedRows::RoundedRows(const TensorView& rows, WeightStorage storage, int threads)
    : RoundedRows(rows.size(0), rows.size(1), storage) {
  round_rows(rows, threads, *this);
}

void matmul(const RoundedRows& a, const PackedMatrix& b, const MutableTensorView& out, const MatmulOptions& options) {
  check_panels(b, a.form().columns, a.form().group);
  if (a.rows() == 0 || b.columns() == 0) return;
  multiply(a, a.rows(), rows_of_task(a.rows(), a.words()), b, out, options);
}

void matmul_reduced(const TensorView& a, const PackedMatrix& b, const MutableTensorView& out,
                    const MatmulOptions& options) {
  multiply_blocks_of_rows(a.size(0), b, out, options, [&](std::int64_t first, std::int64_t rows, RoundedRows& to) {
    round_rows(a.slice(0, first, first + rows), options.threads, to);
  });
}

void matmul_transposed_reduced(const TensorView& a, const PackedMatrix& b, const MutableTensorView& out,
                               const MatmulOptions& options) {
  const std::int64_t k = b.rows(), step = a.stride(0);
  multiply_blocks_of_rows(a.size(1), b, out, options, [&](std::int64_t first, std::int64_t columns, RoundedRows& to) {
    const int threads = worth_sharing(options.threads, 0, static_cast<double>(columns * k) * sizeof(float));
    parallel_for(divide_up(k, kTurnedRows), threads, [&](std::int64_t task, int) {
      check_stop();
      const std::int64_t begin = task * kTurnedRows;
      to.form().round_columns({.from = a.data<float>() + begin * step + first,
                               .row_step = step,
                               .columns = columns,
                               .begin = begin,
                               .count = std::min(kTurnedRows, k - begin),
                               .filled = to.form().depth(k),
                               .to = to.row(0)});
    });
  });
}

RoundedRows rounded_product(const RoundedRows& x, const AffineOperands& wide, const AffineOperands* gate,
                            const FinishElements& finish, int threads) {
  const PackedMatrix& weight = wide.weight;
  const ReducedForm& form = x.form();
  check_panels(weight, form.columns, form.group);
  RoundedRows out(x.rows(), weight.columns(), weight.storage());
  if (x.rows() == 0) return out;
  const std::int64_t width = weight.panel_columns(), task_rows = rows_of_task(x.rows(), x.words()),
                     size = std::min(task_rows, x.rows()) * width;
  WideRoom room(form.group == 1 ? std::min(x.rows(), task_rows) : 0, width, threads);
  // Of each worker, what a panel gives in f32, and the gate's.
  Tensor products = Tensor::zeros({workers(threads), gate == nullptr ? 1 : 2, size});
  for_each_reduced_panel(x.rows(), task_rows, weight, threads,
                         [&](std::int64_t row, std::int64_t rows, std::int64_t column, int worker) {
                           const std::int64_t columns = std::min(width, weight.columns() - column);
                           float* product = products.data<float>() + worker * products.view().stride(0);
                           const auto multiply = [&](const AffineOperands& operands, float* to) {
                             PanelProduct<float, BFloat16> own = panel_product(x, row, rows, operands, column);
                             own.out = to;
                             own.out_stride = width;
                             own.wide = room.of(worker);
                             form.multiply(own);
                           };
                           multiply(wide, product);
                           if (gate != nullptr) multiply(*gate, product + size);
                           finish(product, gate == nullptr ? nullptr : product + size, rows * width);
                           form.round_rows({.from = product,
                                            .row_step = width,
                                            .rows = rows,
                                            .depth = columns,
                                            .filled = form.depth(columns),
                                            .to = out.row(row) + form.offset(column),
                                            .to_step = out.words()});
                         });
  return out;
}

}  // namespace qkv::inline ops
