// The walk-through as one JSON object for machines.
#include <string>
#include <utility>
#include <vector>

#include "core/stop.h"
#include "explain/json_numbers.h"
#include "qkv/explain/explain.h"

namespace qkv {
namespace {

const char* name_of(Role role) {
  switch (role) {
    case Role::input:
      return "input";
    case Role::query:
      return "query";
    case Role::key:
      return "key";
    case Role::value:
      return "value";
    case Role::score:
      return "score";
    case Role::weight:
      return "weight";
    case Role::output:
      return "output";
    case Role::none:
      break;
  }
  return "none";
}

// Numbers are many: they become text row by row, beside small objects that are kept whole.
class JsonWriter {
 public:
  explicit JsonWriter(const Explanation& explanation) : explanation_(explanation) {}

  std::string write() const {
    std::string steps, remarks;
    for (const Section& section : explanation_.sections) {
      std::string& list = section.number > 0 ? steps : remarks;
      list += (list.empty() ? "" : ",") + text_of(section);
    }
    const OrderedJson begin = {{"title", explanation_.title},
                               {"score", explanation_.score},
                               {"scale", explanation_.scale},
                               {"dtype", "f64"},
                               {"target", explanation_.target}};
    return with(begin,
                {{"steps", "[" + steps + "]"},
                 {"remarks", "[" + remarks + "]"},
                 {"output", numbers(explanation_.output)},
                 {"substituted", json_text(explanation_.substituted)},
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
    check_stop(&explanation_.stop);
    if (values.rank() == 1) return json_text(json_numbers(values));
    std::string rows;
    for (std::int64_t i = 0; i < values.size(0); ++i) rows += (i == 0 ? "" : ",") + numbers(values.select(0, i));
    return "[" + rows + "]";
  }

  std::string text_of(const Quantity& quantity) const {
    OrderedJson object = {{"name", quantity.name}, {"role", name_of(quantity.role)}};
    object["shape"] = std::vector<std::int64_t>(quantity.values.shape().begin(), quantity.values.shape().end());
    if (!quantity.rows.empty()) object["rows"] = quantity.rows;
    if (quantity.substituted) object["substituted"] = true;
    return with(object, {{"values", numbers(quantity.values)}});
  }

  std::string text_of(const Section& section) const {
    OrderedJson object;
    if (section.number > 0) object["number"] = section.number;
    object["title"] = section.title;
    object["text"] = OrderedJson::array();
    std::string tensors;
    for (const Block& block : section.blocks) {
      for (const Line& line : block.lines) {
        std::string text;
        for (const Span& span : line) text += span.text;
        object["text"].push_back(text);
      }
      for (const Quantity& quantity : block.quantities) tensors += (tensors.empty() ? "" : ",") + text_of(quantity);
    }
    return with(object, {{"tensors", "[" + tensors + "]"}});
  }

  const Explanation& explanation_;
};

}  // namespace

std::string to_json(const Explanation& explanation) { return JsonWriter(explanation).write(); }

}  // namespace qkv
