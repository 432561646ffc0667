// The walk-through as one JSON object for machines.
#include <string>
#include <utility>
#include <vector>

#include "core/stop.h"
#include "explain/show/json_object.h"
#include "explain/show/svg.h"
#include "qkv/explain/cost.h"
#include "qkv/explain/explain.h"

namespace qkv {
namespace {

constexpr std::int64_t kMostOfPairs = 256;   // inputs, of which tensors [inputs, inputs] are written
constexpr std::int64_t kMostOfTriples = 12;  // and tensors [inputs, inputs, size]

// Numbers are many: they become text row by row, while small objects are kept whole.
class JsonWriter {
 public:
  explicit JsonWriter(const Explanation& explanation) : explanation_(explanation) {}

  std::string write() const {
    OrderedJson begin = json_object("steps", explanation_.target, Dtype::f64, explanation_.title);
    begin["score"] = explanation_.score;
    begin["scale"] = explanation_.scale;
    std::string sections;
    for (const Section& section : explanation_.sections) sections += (sections.empty() ? "" : ",") + text_of(section);
    return with(begin,
                {{"sections", "[" + sections + "]"},
                 {"mask", mask()},
                 {"output", numbers(explanation_.output)},
                 {"substituted", json_text(explanation_.substituted)},
                 {"cost", json_text(to_object(explanation_.cost))},
                 {"true_output", numbers(explanation_.true_output)},
                 {"largest_difference_from_reference", json_text(io::json_number(explanation_.largest_difference))}});
  }

 private:
  // An object, and more entries that are text already.
  static std::string with(const OrderedJson& object, const std::vector<std::pair<const char*, std::string>>& entries) {
    std::string text = json_text(object);
    text.pop_back();
    for (const auto& [name, value] : entries) text += ",\"" + std::string(name) + "\":" + value;
    return text + "}";
  }

  std::string numbers(const TensorView& values) const {
    check_stop();
    if (values.rank() == 1) return json_text(json_numbers(values));
    std::string rows;
    for (std::int64_t i = 0; i < values.size(0); ++i) rows += (i == 0 ? "" : ",") + numbers(values.select(0, i));
    return "[" + rows + "]";
  }

  std::string mask() const {
    if (!explanation_.mask) return "null";
    const ExplainedMask& mask = *explanation_.mask;
    const bool kept = is_kept(mask.hidden);
    return with({{"rules", mask.rules}}, {{"hidden", kept ? numbers(mask.hidden) : "null"}});
  }

  // Whether a tensor with an element for each pair of inputs, or more, is small enough.
  bool is_kept(const Tensor& values) const {
    const std::int64_t n = explanation_.inputs;
    if (explanation_.full || values.rank() < 2) return true;
    if (values.rank() == 3 && values.size(0) == n && values.size(1) == n && n > kMostOfTriples) return false;
    return n <= kMostOfPairs || values.size(-2) != n || values.size(-1) != n;
  }

  std::string text_of(const Quantity& quantity) const {
    const Dims& shape = quantity.values.shape();
    const OrderedJson object = {{"name", quantity.name},
                                {"role", style_of(quantity.role).name},
                                {"shape", std::vector<std::int64_t>(shape.begin(), shape.end())},
                                {"rows", quantity.rows},
                                {"columns", quantity.columns},
                                {"substituted", quantity.substituted}};
    return with(object, {{"values", is_kept(quantity.values) ? numbers(quantity.values) : "null"}});
  }

  std::string text_of(const Block& block) const {
    OrderedJson lines = OrderedJson::array();
    for (const Line& line : block.lines) {
      OrderedJson pieces = OrderedJson::array();
      for (const Span& span : line) pieces.push_back({{"text", span.text}, {"role", style_of(span.role).name}});
      lines.push_back(pieces);
    }
    std::string pictures, tensors;
    for (const Picture& picture : block.pictures) {
      pictures +=
          (pictures.empty() ? "" : ",") + with({{"caption", picture.caption}}, {{"pixels", numbers(picture.pixels)}});
    }
    for (const Quantity& quantity : block.quantities) tensors += (tensors.empty() ? "" : ",") + text_of(quantity);
    return with({{"lines", lines}}, {{"pictures", "[" + pictures + "]"}, {"tensors", "[" + tensors + "]"}});
  }

  std::string text_of(const Section& section) const {
    std::string blocks;
    for (const Block& block : section.blocks) blocks += (blocks.empty() ? "" : ",") + text_of(block);
    return with({{"number", section.number}, {"title", section.title}}, {{"blocks", "[" + blocks + "]"}});
  }

  const Explanation& explanation_;
};

}  // namespace

std::string to_json(const Explanation& explanation) {
  const StopScope stop(explanation.stop);
  return JsonWriter(explanation).write();
}

std::string to_json(const AttentionPlan& plan) { return json_text(to_object(plan)); }

}  // namespace qkv
