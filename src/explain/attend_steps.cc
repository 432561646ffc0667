// Steps 4 to 8 as data: from scores to outputs.
#include <fmt/format.h>

#include <limits>

#include "explain/numbers.h"
#include "explain/story.h"

namespace qkv {
namespace {

constexpr std::int64_t kShownLines = 9;                // one line per key, at most
constexpr std::int64_t kWeightedValuesKept = 1 << 18;  // numbers of [n, n, value_dim] worth keeping whole

// Row `i` of a matrix, as a tensor of rank 1.
Tensor row_of(const Tensor& matrix, std::int64_t i) { return Tensor::copy(matrix.view().select(0, i)); }

void add_first_row(Block& block, const Story& story, const std::string& name, Role role,
                   Tensor Intermediates::* member) {
  const std::string first = name + " of " + story.input_name(0);
  const bool substituted = story.substituted(name);
  block.quantities.push_back({first, role, row_of(story.run.*member, 0), {}, substituted});
  if (substituted) block.quantities.push_back({"true " + first, role, row_of(story.truth.*member, 0), {}, false});
}

// How query 1 meets key j, up to the " = " before the score.
Line meeting(const Story& story, std::int64_t j) {
  const Span query{story.name("query", 0), Role::query}, key{story.name("key", j), Role::key};
  switch (story.input.score) {
    case Score::Kind::additive:
      return {
          plain("score_v . tanh(score_w_query ")[0], query, {" + score_w_key ", Role::none}, key, {")", Role::none}};
    case Score::Kind::concat:
      return {plain("score_v . tanh(score_w [")[0], query, {"; ", Role::none}, key, {"])", Role::none}};
    case Score::Kind::bilinear:
      return {query, {" . score_w ", Role::none}, key};
    case Score::Kind::dot:
    case Score::Kind::scaled_dot:
      break;
  }
  Line line = {query, {" . ", Role::none}, key};
  if (story.run.query.size(1) > story.terms()) return line;
  for (std::int64_t d = 0; d < story.run.query.size(1); ++d) {
    line.push_back({d == 0 ? " = " : " + ", Role::none});
    line.push_back({number_text(story.run.query.view().at<double>({0, d})), Role::query});
    line.push_back({"*", Role::none});
    line.push_back({number_text(story.run.key.view().at<double>({j, d})), Role::key});
  }
  return line;
}

Section score_first_input(const Story& story) {
  Block block;
  Line what = {{"Who matters to ", Role::none}, {story.input_name(0), Role::input},       {"? Its ", Role::none},
               {"query", Role::query},          {" is compared with every ", Role::none}, {"key", Role::key},
               {", also its own.", Role::none}};
  block.lines.push_back(what);
  if (story.run.scale != 1) {
    block.lines.push_back(plain(
        fmt::format("Each score is multiplied by {}{}; the result is called logit.", number_text(story.run.scale),
                    story.input.score == Score::Kind::scaled_dot && !story.input.scale
                        ? fmt::format(" = 1/sqrt({}): sums of more products are larger, and the scale evens that out",
                                      story.run.query.size(1))
                        : "")));
  }
  if (story.masked()) {
    block.lines.push_back(plain("A key that the mask hides gets the logit -inf, so that its weight will be 0."));
  }
  const bool own_scores = story.substituted("scores"), own_logits = story.substituted("logits");
  for (std::int64_t j : some_of(story.count(), story.most(kShownLines))) {
    story.check_stop();
    if (j < 0) {
      block.lines.push_back(plain("..."));
      continue;
    }
    const double score = story.run.scores.view().at<double>({0, j}), logit = story.run.logits.view().at<double>({0, j});
    Line line = own_scores ? Line{{fmt::format("score for {}", story.name("key", j)), Role::none}} : meeting(story, j);
    line.push_back({" = ", Role::none});
    line.push_back({number_text(score), Role::score});
    if (own_scores) line.push_back({" (substituted)", Role::none});
    if (story.run.scale != 1 && !own_logits) {
      line.push_back({fmt::format(",  x {} = ", number_text(story.run.scale)), Role::none});
      line.push_back({number_text(score * story.run.scale), Role::score});
    }
    if (own_logits) {
      line.push_back({",  replaced by ", Role::none});
      line.push_back({number_text(logit), Role::score});
    } else if (logit == -std::numeric_limits<double>::infinity()) {
      line.push_back({",  hidden by the mask: ", Role::none});
      line.push_back({"-inf", Role::score});
    }
    block.lines.push_back(line);
  }
  add_first_row(block, story, "logits", Role::score, &Intermediates::logits);
  return {4, "Scores for the first input", {block}};
}

Section softmax(const Story& story) {
  Block block;
  block.lines = {
      plain("Logits become shares that add up to 1: weight = exp(logit) / sum of exp(all logits of the row)"),
      plain("= exp(logit - log_sum_exp), where log_sum_exp is the logarithm of that sum.")};
  const double log_sum_exp = story.run.log_sum_exp.data<double>()[0];
  const std::string subtracted =
      log_sum_exp < 0 ? fmt::format("({})", number_text(log_sum_exp)) : number_text(log_sum_exp);
  const Intermediates& run = story.substituted("weights") ? story.truth : story.run;
  block.lines.push_back({{fmt::format("log_sum_exp of {} = ", story.input_name(0)), Role::none},
                         {number_text(log_sum_exp), Role::score}});
  for (std::int64_t j : some_of(story.count(), story.most(kShownLines))) {
    story.check_stop();
    if (j < 0) {
      block.lines.push_back(plain("..."));
      continue;
    }
    block.lines.push_back({{"exp(", Role::none},
                           {number_text(run.logits.view().at<double>({0, j})), Role::score},
                           {fmt::format(" - {}) = ", subtracted), Role::none},
                           {number_text(run.weights.view().at<double>({0, j})), Role::weight},
                           {fmt::format("  for {}", story.name("key", j)), Role::none}});
  }
  add_first_row(block, story, "weights", Role::weight, &Intermediates::weights);
  return {5, "Softmax", {block}};
}

// weights[i, j] * value[j], for query i.
Tensor weighted_values(const Intermediates& run, std::int64_t i) {
  Tensor product = run.value;
  const std::int64_t columns = product.size(1);
  for (std::int64_t j = 0; j < product.size(0); ++j) {
    const double weight = run.weights.view().at<double>({i, j});
    double* row = product.data<double>() + j * columns;
    // A hidden value is left out, whatever it holds.
    for (std::int64_t d = 0; d < columns; ++d) row[d] = weight == 0 ? 0 : weight * row[d];
  }
  return product;
}

Section multiply_scores_with_values(const Story& story) {
  Block block;
  block.lines = {{{"Each ", Role::none},
                  {"value", Role::value},
                  {" is passed on in proportion to the ", Role::none},
                  {"weight", Role::weight},
                  {" that its key got.", Role::none}}};
  const Tensor product = weighted_values(story.run, 0);
  if (product.size(1) <= story.terms()) {
    for (std::int64_t j : some_of(story.count(), story.most(kShownLines))) {
      story.check_stop();
      if (j < 0) {
        block.lines.push_back(plain("..."));
        continue;
      }
      block.lines.push_back({{number_text(story.run.weights.view().at<double>({0, j})), Role::weight},
                             {" x ", Role::none},
                             {vector_text(story.run.value.view().select(0, j), story.terms()), Role::value},
                             {" = ", Role::none},
                             {vector_text(product.view().select(0, j), story.terms()), Role::output}});
    }
  }
  block.quantities.push_back(
      {"weighted_values of " + story.input_name(0), Role::output, product, story.names("value"), false});
  return {6, "Multiply scores with values", {block}};
}

Section sum_to_first_output(const Story& story) {
  const Tensor product = weighted_values(story.run, 0);
  Tensor sum = Tensor::zeros({product.size(1)}, Dtype::f64);
  for (std::int64_t i = 0; i < product.element_count(); ++i) {
    sum.data<double>()[i % product.size(1)] += product.data<double>()[i];
  }
  const Tensor output = row_of(story.run.output, 0);
  Block block;
  block.lines = {plain("The rows above added up: what all inputs together say to this one.")};
  block.quantities.push_back({"output of " + story.input_name(0), Role::output, output, {}, false});
  Block agreement;
  agreement.lines = {
      plain(fmt::format("The kernel does steps 4 to 7 in one pass; adding up the rows of step 6 differs "
                        "from it by {}.",
                        number_text(largest_difference(sum, output))))};
  return {7, "Sum to output 1", {block, agreement}};
}

Section repeat_for_the_rest(const Story& story) {
  const std::int64_t n = story.count(), value_dim = story.run.value.size(1);
  Block scores;
  scores.lines = {plain("Row i: query i; column j: key j. Each row of weights adds up to 1.")};
  const std::vector<std::string> queries = story.names("query");
  if (story.run.scale != 1 || story.masked() || story.substituted("scores") || story.substituted("logits")) {
    add(scores, story, "scores", Role::score, &Intermediates::scores, queries);
  }
  add(scores, story, "logits", Role::score, &Intermediates::logits, queries);
  add(scores, story, "weights", Role::weight, &Intermediates::weights, queries);
  scores.quantities.push_back({"log_sum_exp", Role::score, story.run.log_sum_exp, {}, false});

  Block products;
  if (n * n * value_dim <= kWeightedValuesKept) {
    products.lines = {plain("weighted_values[i]: the rows that add up to output i.")};
    Tensor all = Tensor::uninitialized({n, n, value_dim}, Dtype::f64);
    for (std::int64_t i = 0; i < n; ++i) convert(weighted_values(story.run, i), all.view().select(0, i));
    products.quantities.push_back({"weighted_values", Role::output, all, story.names("value"), false});
  } else {
    products.lines = {
        plain(fmt::format("weighted_values [{}, {}, {}]: entry (i, j) is weights[i, j] x value[j]; too many "
                          "to list.",
                          n, n, value_dim))};
  }
  Block outputs;
  outputs.lines = {plain(n == 1 ? "There is one input alone, so this is all:" : "And their sums, one row per input:")};
  outputs.quantities.push_back({"output", Role::output, story.run.output, story.names("output"), false});
  if (!story.input.substitutes.empty()) {
    outputs.lines = {
        plain("And their sums, with what was substituted; beside them the true outputs, with nothing "
              "substituted:")};
    outputs.quantities.push_back({"true output", Role::output, story.truth.output, story.names("output"), false});
  }
  return {8, "Repeat for the rest", {scores, products, outputs}};
}

}  // namespace

std::vector<Section> attend_steps(const Story& story) {
  return {score_first_input(story), softmax(story), multiply_scores_with_values(story), sum_to_first_output(story),
          repeat_for_the_rest(story)};
}

}  // namespace qkv
