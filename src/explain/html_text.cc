// Text in HTML.
#include "explain/html_text.h"

#include "explain/json_object.h"

namespace qkv::inline explaining {

std::string html_text(std::string_view text) {
  const auto valid = OrderedJson::parse(json_text(std::string(text))).get<std::string>();
  std::string html;
  for (char c : valid) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        const bool control = (c >= 0 && c < ' ' && c != '\n' && c != '\t') || c == '\x7f';
        html += control ? std::string("\xEF\xBF\xBD") : std::string(1, c);
    }
  }
  return html;
}

}  // namespace qkv::inline explaining
