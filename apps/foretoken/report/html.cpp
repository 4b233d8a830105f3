#include "apps/foretoken/report/html.h"

#include "models/tokenizer_text.h"

namespace foretoken::cli {

std::string escaped(std::string_view text) {
  using tokenizer_detail::utf8_step;
  using tokenizer_detail::Utf8Status;
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const tokenizer_detail::Utf8Step step = utf8_step(text, i);
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
    if (step.status != Utf8Status::kValid || is_control) {
      out += tokenizer_detail::kReplacementCharacter;
    } else {
      switch (text[i]) {
        case '&': out += "&amp;"; break;
        case '<': out += "&lt;"; break;
        case '>': out += "&gt;"; break;
        case '"': out += "&quot;"; break;
        case '\'': out += "&#39;"; break;
        default: out += text.substr(i, step.length);
      }
    }
    i += step.length;
  }
  return out;
}

std::string element(std::string_view name, std::string_view text, std::string_view attributes) {
  std::string out("<");
  out.append(name).append(attributes.empty() ? "" : " ").append(attributes).append(">");
  return out.append(escaped(text)).append("</").append(name).append(">");
}

}  // namespace foretoken::cli
