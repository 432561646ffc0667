// Declares the outputs that can be written, makes room for those that were asked for, and computes derivatives.
#include "commands/attend_outputs.h"

#include <fmt/format.h>

#include <algorithm>

namespace qkv::app {
namespace {

std::string option_of(const OutputDescription& kind) { return "--" + output_word(kind); }

const char* form_of(OutputOf of) {
  switch (of) {
    case OutputOf::rows:
      return "[..., heads, q_len]";
    case OutputOf::keys:
      return "[..., heads, k_len]";
    case OutputOf::pairs:
      return "[..., heads, q_len, k_len]";
    case OutputOf::top:
      return "[..., heads, q_len, n]";
    case OutputOf::blocks:
      return "[..., heads, n, n]";
    case OutputOf::chosen:
      break;
  }
  return "[n, k_len]";
}

Rules rules_of(const OutputDescription& kind) {
  if (kind.of == OutputOf::chosen) return needs("--rows");
  if (kind.of != OutputOf::top) return {};
  return needs(kind.view == &AttentionExtras::top_keys ? "--top-weights" : "--top-keys");
}

}  // namespace

Dims output_shape(OutputOf of, const RowShapes& shapes, std::int64_t rows, std::int64_t top, std::int64_t blocks) {
  switch (of) {
    case OutputOf::rows:
      return shapes.rows;
    case OutputOf::keys:
      return shapes.received;
    case OutputOf::pairs:
      return shapes.with(shapes.length);
    case OutputOf::top:
      return shapes.with(top);
    case OutputOf::chosen:
      return {rows, shapes.length};
    case OutputOf::blocks:
      break;
  }
  Dims shape = shapes.blocks;
  for (int i = 0; i < 2; ++i) shape.push_back(blocks);
  return shape;
}

std::string output_word(const OutputDescription& kind) {
  std::string word = kind.name;
  std::ranges::replace(word, '_', '-');
  return word;
}

AttendOutputs::AttendOutputs(Command& command, ArrayFiles& files)
    : outputs_([&files] {
        std::vector<const ArrayOption*> options;
        for (const OutputDescription& kind : attention_outputs()) {
          const char* type = kind.is_index ? "i64 " : "";
          const std::string help = fmt::format("output: {}, {}{}", kind.help, type, form_of(kind.of));
          options.push_back(&files.output(option_of(kind), help, rules_of(kind)));
        }
        return options;
      }()),
      rows_(files.input("--rows", "i64 [n, 3]: batch, head and query of chosen rows; packed: the query in its sequence",
                        needs("--row-weights"))) {
  command.add({{"--top", size(top_, 1024), "Number of keys per query (default 8)", needs("--top-keys")},
               {"--blocks", size(blocks_, 4096), "Number of blocks along queries and along keys (default 64)",
                needs("--block-weights")}});
}

void AttendOutputs::read() { rows_.read(); }

AttentionExtras AttendOutputs::allocate(ArrayFiles& files, const RowShapes& shapes) const {
  AttentionExtras extras;
  extras.rows = rows_.view();
  const std::int64_t rows = extras.rows.rank() > 0 ? extras.rows.size(0) : 0;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const OutputDescription& kind = attention_outputs()[i];
    const Dtype dtype = kind.is_index ? Dtype::i64 : shapes.dtype;
    extras.*kind.view = files.allocate(*outputs_[i], output_shape(kind.of, shapes, rows, top_, blocks_), dtype);
  }
  return extras;
}

AttendDerivatives::AttendDerivatives(ArrayFiles& files, const CallOptions& rules)
    : rules_(rules),
      grad_out_(files.input("--grad-out", "Gradient of the output, in its shape")),
      first_{{files.output("--grad-query", "output: gradient of the queries", needs("--grad-out")), gradients_.query,
              &ForwardPass::query},
             {files.output("--grad-key", "output: gradient of the keys", needs("--grad-out")), gradients_.key,
              &ForwardPass::key},
             {files.output("--grad-value", "output: gradient of the values", needs("--grad-out")), gradients_.value,
              &ForwardPass::value},
             {files.output("--grad-alibi", "output: gradient of the slopes", needs("--grad-out", "--alibi")),
              alibi_slopes_, [&rules](const ForwardPass&) { return rules.alibi.view(); }},
             {files.output("--grad-sinks", "output: gradient of the sinks", needs("--grad-out", "--sinks")),
              gradients_.sinks, [&rules](const ForwardPass&) { return rules.sinks.view(); }}},
      grad_bias_(files.output("--grad-bias",
                              "output: gradient of --bias, in its shape; may be repeated, in the order of --bias",
                              needs("--grad-out", "--bias") & repeated())),
      tangents_{
          {files.output("--tangent-out", "output: the JVP of the output"), output_tangents_.out, &ForwardPass::out},
          {files.output("--tangent-log-sum-exp", "output: the JVP of the log-sum-exp"), output_tangents_.log_sum_exp,
           &ForwardPass::log_sum_exp}},
      tangent_query_(files.input("--tangent-query", "Tangent of the queries, in their shape")),
      tangent_key_(files.input("--tangent-key", "Tangent of the keys")),
      tangent_value_(files.input("--tangent-value", "Tangent of the values")),
      second_{{files.output("--second-grad-query",
                            "output: gradient with respect to the queries of sum(--grad-out x JVP of the output)",
                            needs("--grad-out")),
               second_gradients_.query, &ForwardPass::query},
              {files.output("--second-grad-key", "The same for the keys", needs("--grad-out")), second_gradients_.key,
               &ForwardPass::key},
              {files.output("--second-grad-value", "The same for the values", needs("--grad-out")),
               second_gradients_.value, &ForwardPass::value},
              {files.output("--second-grad-out", "The same for --grad-out", needs("--grad-out")),
               second_gradients_.grad_out, &ForwardPass::out}} {
  const auto add = [&](const InputArray& of, MutableTensorView& view, const char* help) {
    parameters_.push_back({files.output("--grad-" + of.name.substr(2), help, needs("--grad-out", of.name)), view,
                           [&of](const ForwardPass&) { return of.view(); }});
  };
  MutableTensorView* const of_score[] = {&gradients_.score.w_query, &gradients_.score.w_key, &gradients_.score.v,
                                         &gradients_.score.w_query};
  for (std::size_t i = 0; i < rules.score->parameters.size(); ++i) {
    add(*rules.score->parameters[i], *of_score[i], "output: gradient of this parameter");
  }
  tables_.resize(rules.tables.size());
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    add(*rules.tables[i], tables_[i], "output: gradient of the table");
  }
}

const ArrayOption* AttendDerivatives::first_given(const std::vector<Output>& outputs) {
  const auto found = std::ranges::find_if(outputs, [](const Output& output) { return output.option.given(); });
  return found == outputs.end() ? nullptr : &found->option;
}

void AttendDerivatives::check() const {
  const ArrayOption *tangent = first_given(tangents_), *second = first_given(second_);
  const bool first = first_given(first_) != nullptr || grad_bias_.given() || first_given(parameters_) != nullptr;
  if (grad_out_.given() && !first && second == nullptr) {
    throw UsageError("--grad-out", "requires a gradient to write, such as --grad-query");
  }
  const bool moves = tangent != nullptr || second != nullptr;
  if (moves && !has_tangent()) {
    throw UsageError(second != nullptr ? "--second-grad-..." : tangent->name,
                     "requires --tangent-query, --tangent-key or --tangent-value");
  }
  if (has_tangent() && !moves) {
    throw UsageError("--tangent-...", "requires --tangent-out, --tangent-log-sum-exp or --second-grad-...");
  }
  if (grad_bias_.paths.size() > rules_.bias.paths.size()) {
    throw UsageError("--grad-bias",
                     fmt::format("has {} files for {} of --bias", grad_bias_.paths.size(), rules_.bias.paths.size()));
  }
}

void AttendDerivatives::read(Dtype accumulation) {
  for (InputArray* array : {&grad_out_, &tangent_query_, &tangent_key_, &tangent_value_}) array->read_as(accumulation);
}

void AttendDerivatives::allocate(ArrayFiles& files, const ForwardPass& forward) {
  const Dtype dtype = accumulation_of(forward.query.dtype());
  for (const std::vector<Output>* outputs : {&first_, &parameters_, &tangents_, &second_}) {
    for (const Output& output : *outputs) {
      if (output.option.given()) output.view = files.allocate(output.option, output.like(forward).shape(), dtype);
    }
  }
  for (std::size_t i = 0; i < grad_bias_.paths.size(); ++i) {
    gradients_.bias.push_back(files.allocate(grad_bias_.paths[i], rules_.bias.arrays[i].shape(), dtype));
  }
  if (grad_bias_.given()) gradients_.bias.resize(rules_.bias.arrays.size());
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    if (rules_.tables[i]->given()) gradients_.tables.push_back(tables_[i]);
  }
  if (alibi_slopes_) gradients_.alibi_slopes = {alibi_slopes_};
}

std::int64_t AttendDerivatives::passes() const {
  return (grad_out_.given() ? 1 : 0) + (first_given(tangents_) != nullptr ? 1 : 0) +
         (first_given(second_) != nullptr ? 1 : 0);
}

void AttendDerivatives::compute(const ForwardPass& forward, ShareTurns& turns) const {
  const auto& [q, k, v, out, log_sum_exp, options] = forward;
  const AttentionTangents tangents{
      .query = tangent_query_.view(), .key = tangent_key_.view(), .value = tangent_value_.view()};
  if (grad_out_.given()) {
    attention_backward(q, k, v, out, log_sum_exp, grad_out_.view(), options, gradients_);
    turns.next();
  }
  if (first_given(tangents_) != nullptr) {
    attention_jvp(q, k, v, out, log_sum_exp, tangents, options, output_tangents_);
    turns.next();
  }
  if (first_given(second_) != nullptr) {
    attention_double_backward(q, k, v, out, log_sum_exp, grad_out_.view(), tangents, options, second_gradients_);
    turns.next();
  }
}

}  // namespace qkv::app
