// Steps 4 to 8 as data: from scores to outputs.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "core/mathematics.h"
#include "core/stop.h"
#include "explain/steps/explanation_context.h"
#include "explain/steps/text_parts.h"

namespace qkv::inline explaining {
namespace {

constexpr std::int64_t kShownLines = 9;                // one line per key, at most
constexpr std::int64_t kWeightedValuesKept = 1 << 18;  // numbers of [n, n, value_dim] worth keeping whole

// Row `i` of a matrix, as a tensor of rank 1.
Tensor row_of(const Tensor& matrix, std::int64_t i) { return Tensor::copy(matrix.view().select(0, i)); }

void add_first_row(Block& block, const ExplanationContext& context, const std::string& name, Role role,
                   Tensor Intermediates::* member) {
  const std::string first = name + " of " + context.input_name(0);
  const bool substituted = context.substituted(name);
  block.quantities.push_back({first, role, row_of(context.run.*member, 0), {}, substituted});
  if (substituted) block.quantities.push_back({"true " + first, role, row_of(context.truth.*member, 0), {}, false});
}

// The products of query 1 and key j, up to the " = " before the score.
Line products_line(const ExplanationContext& context, std::int64_t j) {
  const Span query{context.name("query", 0), Role::query}, key{context.name("key", j), Role::key};
  switch (context.input.score) {
    case Score::Kind::additive:
      return {plain("score_v . tanh(score_w_query ")[0], query, {" + score_w_key "}, key, {")"}};
    case Score::Kind::concat:
      return {plain("score_v . tanh(score_w [")[0], query, {"; "}, key, {"])"}};
    case Score::Kind::bilinear:
      return {query, {" . score_w "}, key};
    case Score::Kind::dot:
    case Score::Kind::scaled_dot:
      break;
  }
  Line line = {query, {" . "}, key};
  if (context.run.query.size(1) > context.terms()) return line;
  add_products(line, context.run.query.view().select(0, 0), context.run.key.view().select(0, j));
  return line;
}

Section score_first_input(const ExplanationContext& context) {
  const bool own_scores = context.substituted("scores"), own_logits = context.substituted("logits");
  Block block;
  Line what = {{"Who matters to "}, {context.input_name(0), Role::input}, {"? "}};
  if (own_scores) {
    what.push_back({"Its scores are those that were put in."});
  } else {
    append(what,
           {{"Its "}, {"query", Role::query}, {" is compared with every "}, {"key", Role::key}, {", also its own."}});
  }
  block.lines.push_back(what);
  if (own_logits) {
    block.lines.push_back(
        plain("Its logits, what softmax takes, are those that were put in: neither scale nor mask changes them."));
  } else if (context.run.scale != 1) {
    block.lines.push_back(plain(
        fmt::format("Each score is multiplied by {}{}; the result is called logit.", number_text(context.run.scale),
                    context.input.score == Score::Kind::scaled_dot && !context.input.scale
                        ? fmt::format(" = 1/sqrt({}): sums of more products are larger, and the scale evens that out",
                                      context.run.query.size(1))
                        : "")));
  } else {
    block.lines.push_back(plain("The scale is 1 here, so that a score is a logit at once: what softmax takes."));
  }
  if (context.masked()) {
    block.lines.push_back(plain("A key that the mask hides gets the logit -inf, so that softmax makes its weight 0."));
  }
  add_lines(block, context.count(), context.most(kShownLines), [&](std::int64_t j) {
    const double score = context.run.scores.view().at<double>({0, j}),
                 logit = context.run.logits.view().at<double>({0, j});
    Line line = own_scores ? plain(fmt::format("score for {}", context.name("key", j))) : products_line(context, j);
    append(line, {{" = "}, {number_text(score), Role::score}});
    if (own_scores) line.push_back({" (substituted)"});
    if (context.run.scale != 1 && !own_logits) {
      append(line, {{fmt::format(",  x {} = ", number_text(context.run.scale))},
                    {number_text(score * context.run.scale), Role::score}});
    }
    if (own_logits) {
      append(line, {{",  replaced by "}, {number_text(logit), Role::score}});
    } else if (is_hidden(logit, score * context.run.scale)) {
      append(line, {{",  hidden by the mask: "}, {"-inf", Role::score}});
    }
    return line;
  });
  add_first_row(block, context, "logits", Role::score, &Intermediates::logits);
  return {4, "Scores for the first input", {block}};
}

// exp of each logit of the first input, their sum and the shares of it; nothing where they have no room in a number.
void add_exponentials(Block& block, const ExplanationContext& context) {
  const Intermediates& run = context.run;
  const std::int64_t count = context.count();
  double sum = 0;
  for (std::int64_t j = 0; j < count; ++j) sum += exp(run.logits.view().at<double>({0, j}));
  if (!std::isfinite(sum) || sum == 0) return;
  Line line = {{"sum = "}};
  const std::vector<std::int64_t> shown = some_of(count, context.most(kShownLines));
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (i > 0) line.push_back({" + "});
    if (shown[i] < 0) {
      line.push_back({"..."});
      continue;
    }
    append(line, {{"exp("}, {number_text(run.logits.view().at<double>({0, shown[i]})), Role::score}, {")"}});
  }
  append(line, {{" = "}, {number_text(sum), Role::score}});
  block.lines.push_back(line);
  add_lines(block, count, context.most(kShownLines), [&](std::int64_t j) -> Line {
    const double exponential = exp(run.logits.view().at<double>({0, j}));
    return {{number_text(exponential), Role::score},
            {fmt::format(" / {} = ", number_text(sum))},
            {number_text(exponential / sum), Role::weight},
            {fmt::format("  for {}", context.name("key", j))}};
  });
}

// The row of weights as shares of a sum, and as the kernel computes them.
void add_shares(Block& block, const ExplanationContext& context, double log_sum_exp) {
  block.lines = {
      plain("Logits become shares that add up to 1: weight = exp(logit) / sum of exp(all logits of the row).")};
  const std::string subtracted =
      log_sum_exp < 0 ? fmt::format("({})", number_text(log_sum_exp)) : number_text(log_sum_exp);
  add_exponentials(block, context);
  block.lines.push_back(plain(
      "The kernel takes the logarithm of the sum first, as exp of a large logit has no room in a number: weight = "
      "exp(logit - log_sum_exp)."));
  block.lines.push_back(
      {{fmt::format("log_sum_exp of {} = ", context.input_name(0))}, {number_text(log_sum_exp), Role::score}});
  add_lines(block, context.count(), context.most(kShownLines), [&](std::int64_t j) -> Line {
    const double logit = context.run.logits.view().at<double>({0, j});
    const double weight =
        context.substituted("weights") ? exp(logit - log_sum_exp) : context.run.weights.view().at<double>({0, j});
    return {{"exp("},
            {number_text(logit), Role::score},
            {fmt::format(" - {}) = ", subtracted)},
            {number_text(weight), Role::weight},
            {fmt::format("  for {}", context.name("key", j))}};
  });
}

Section softmax(const ExplanationContext& context) {
  Block block;
  const double log_sum_exp = context.run.log_sum_exp.data<double>()[0];
  if (log_sum_exp == -HUGE_VAL) {
    block.lines = {
        plain(fmt::format("All logits of {} are -inf: the sum of their exponentials is 0, there are no "
                          "shares of it, and softmax makes each weight 0.",
                          context.input_name(0)))};
  } else {
    add_shares(block, context, log_sum_exp);
  }
  if (context.substituted("weights")) {
    block.lines.push_back(plain("These go no further: the weights are those that were put in."));
  }
  add_first_row(block, context, "weights", Role::weight, &Intermediates::weights);
  return {5, "Softmax", {block}};
}

// weights[i, j] * value[j], for query i.
Tensor weighted_values(const Intermediates& run, std::int64_t i) {
  Tensor product = run.value;
  const std::int64_t columns = product.size(1);
  for (std::int64_t j = 0; j < product.size(0); ++j) {
    const double weight = run.weights.view().at<double>({i, j});
    double* row = product.data<double>() + j * columns;
    // A hidden value is left out, even NaN.
    for (std::int64_t d = 0; d < columns; ++d) row[d] = weight == 0 ? 0 : weight * row[d];
  }
  return product;
}

Section multiply_scores_with_values(const ExplanationContext& context) {
  Block block;
  block.lines = {{{"Each "},
                  {"value", Role::value},
                  {" is multiplied by the "},
                  {"weight", Role::weight},
                  {" of its key: so much of it is passed on."}}};
  const Tensor product = weighted_values(context.run, 0);
  if (product.size(1) <= context.terms()) {
    add_lines(block, context.count(), context.most(kShownLines), [&](std::int64_t j) -> Line {
      return {{number_text(context.run.weights.view().at<double>({0, j})), Role::weight},
              {" x "},
              {vector_text(context.run.value.view().select(0, j), context.terms()), Role::value},
              {" = "},
              {vector_text(product.view().select(0, j), context.terms()), Role::output}};
    });
  }
  block.quantities.push_back(
      {"weighted_values of " + context.input_name(0), Role::output, product, context.names("value"), false});
  return {6, "Multiply weights with values", {block}};
}

Section sum_to_first_output(const ExplanationContext& context) {
  const Tensor product = weighted_values(context.run, 0);
  Tensor sum = Tensor::zeros({product.size(1)}, Dtype::f64);
  for (std::int64_t i = 0; i < product.element_count(); ++i) {
    sum.data<double>()[i % product.size(1)] += product.data<double>()[i];
  }
  const Tensor output = row_of(context.run.output, 0);
  Block block;
  block.lines = {plain("The rows above added up: what all inputs together say to this one.")};
  block.quantities.push_back({"output of " + context.input_name(0), Role::output, output, {}, false});
  Block agreement;
  const char* way = context.substituted("weights")  ? "The output is one product of the weights and all values"
                    : context.substituted("logits") ? "The kernel does steps 5 to 7 in one pass"
                                                    : "The kernel does steps 4 to 7 in one pass";
  agreement.lines = {plain(fmt::format("{}; adding up the rows of step 6 differs from it by {}.", way,
                                       number_text(largest_difference(sum, output))))};
  return {7, "Sum to output 1", {block, agreement}};
}

Section repeat_for_the_rest(const ExplanationContext& context) {
  const std::int64_t n = context.count(), value_dim = context.run.value.size(1);
  Block scores;
  const std::vector<std::string> queries = context.names("query");
  scores.lines = {plain("Row i: query i; column j: key j. " + about_row_sums(context.run.weights, queries))};
  if (context.run.scale != 1 || context.masked() || context.substituted("scores") || context.substituted("logits")) {
    add(scores, context, "scores", Role::score, &Intermediates::scores, queries);
  }
  add(scores, context, "logits", Role::score, &Intermediates::logits, queries);
  add(scores, context, "weights", Role::weight, &Intermediates::weights, queries);
  for (Quantity& pairs : scores.quantities) pairs.columns = context.names("key");
  scores.quantities.push_back({"log_sum_exp", Role::score, context.run.log_sum_exp, {}, false});

  Block products;
  if (n * n * value_dim <= kWeightedValuesKept) {
    products.lines = {plain("weighted_values[i]: the rows that add up to output i.")};
    Tensor all = Tensor::uninitialized({n, n, value_dim}, Dtype::f64);
    for (std::int64_t i = 0; i < n; ++i) convert(weighted_values(context.run, i), all.view().select(0, i));
    products.quantities.push_back({"weighted_values", Role::output, all, context.names("value"), false});
  } else {
    products.lines = {
        plain(fmt::format("weighted_values [{}, {}, {}]: entry (i, j) is weights[i, j] x value[j]; too many "
                          "to list.",
                          n, n, value_dim))};
  }
  Block outputs;
  outputs.lines = {plain(n == 1 ? "There is one input alone, so this is all:" : "And their sums, one row per input:")};
  outputs.quantities.push_back({"output", Role::output, context.run.output, context.names("output"), false});
  if (!context.input.substitutes.empty()) {
    outputs.lines = {
        plain("And their sums, with what was substituted; beside them the true outputs, with nothing "
              "substituted:")};
    outputs.quantities.push_back({"true output", Role::output, context.truth.output, context.names("output"), false});
  }
  return {8, "Repeat for the rest", {scores, products, outputs}};
}

}  // namespace

std::vector<Section> attend_steps(const ExplanationContext& context) {
  return {score_first_input(context), softmax(context), multiply_scores_with_values(context),
          sum_to_first_output(context), repeat_for_the_rest(context)};
}

}  // namespace qkv::inline explaining
