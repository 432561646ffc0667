// Builds the tree of a JSON file from checked events, and refuses values by field and rule.
#include "io/json_document.h"

#include <fmt/format.h>

#include "io/json_events.h"
#include "io/quote.h"
#include "qkv/error.h"
#include "qkv/files.h"

namespace qkv::io {
namespace {

constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxValues = 300'000;  // about 200 bytes each with what is built from them: bounds a refused file

class TreeBuilder : public JsonEvents {
 public:
  TreeBuilder(const std::string& file, nlohmann::json& root) : JsonEvents(file), root_(&root) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool start_object(std::size_t) override { return open(nlohmann::json::object()); }
  bool start_array(std::size_t) override { return open(nlohmann::json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    const auto [member, is_new] = open_.back()->get_ref<nlohmann::json::object_t&>().try_emplace(name);
    if (!is_new) refuse(fmt::format("key {} appears twice", quote(name)));
    member_ = &member->second;
    return true;
  }

 private:
  nlohmann::json& insert(nlohmann::json&& value) {
    if (++values_ > kMaxValues) refuse(fmt::format("more than {} values", kMaxValues));
    if (open_.empty()) return *root_ = std::move(value);
    if (open_.back()->is_object()) return *member_ = std::move(value);
    open_.back()->push_back(std::move(value));
    return open_.back()->back();
  }
  bool add(nlohmann::json&& value) {
    insert(std::move(value));
    return true;
  }
  bool open(nlohmann::json&& value) {
    if (open_.size() == kMaxDepth) refuse(fmt::format("nested deeper than {}", kMaxDepth));
    open_.push_back(&insert(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  std::string why_not(std::string_view kind) const override { return fmt::format("{} is not allowed", kind); }

  nlohmann::json* root_;
  std::vector<nlohmann::json*> open_;
  nlohmann::json* member_ = nullptr;
  std::size_t values_ = 0;
};

}  // namespace

JsonValue JsonValue::operator[](const std::string& key) const {
  require(json_->is_object(), "an object");
  const auto member = json_->find(key);
  if (member == json_->end()) throw FormatError(fmt::format("{}: {} is missing", *file_, below(key)));
  return {*member, *file_, below(key)};
}

std::optional<JsonValue> JsonValue::find(const std::string& key) const {
  require(json_->is_object(), "an object");
  const auto member = json_->find(key);
  if (member == json_->end() || member->is_null()) return std::nullopt;
  return JsonValue(*member, *file_, below(key));
}

bool JsonValue::is_string() const { return json_->is_string(); }

bool JsonValue::is_number() const { return json_->is_number(); }

bool JsonValue::is_list() const { return json_->is_array(); }

bool JsonValue::is(std::string_view json) const { return *json_ == nlohmann::json::parse(json); }

void JsonValue::for_each_member(const std::function<void(const std::string&, const JsonValue&)>& f) const {
  require(json_->is_object(), "an object");
  for (const auto& [key, value] : json_->items()) f(key, JsonValue(value, *file_, below(key)));
}

bool JsonValue::boolean() const {
  require(json_->is_boolean(), "true or false");
  return json_->get<bool>();
}

const std::string& JsonValue::string() const {
  require(json_->is_string(), "a string");
  return json_->get_ref<const std::string&>();
}

std::int64_t JsonValue::integer(std::int64_t min, std::int64_t max) const {
  require(json_->is_number_integer(), "an integer");
  const bool above_int64 = json_->is_number_unsigned() && json_->get<std::uint64_t>() > INT64_MAX;
  if (above_int64 || json_->get<std::int64_t>() < min || json_->get<std::int64_t>() > max) {
    refuse(fmt::format("is {}, must be {} to {}", json_->dump(), min, max));
  }
  return json_->get<std::int64_t>();
}

double JsonValue::number() const {
  require(json_->is_number(), "a number");
  return json_->get<double>();
}

std::vector<JsonValue> JsonValue::elements() const {
  require(json_->is_array(), "an array");
  std::vector<JsonValue> values;
  for (std::size_t i = 0; i < json_->size(); ++i) {
    values.emplace_back((*json_)[i], *file_, fmt::format("{}[{}]", path_, i));
  }
  return values;
}

std::string JsonValue::below(const std::string& key) const {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  const bool plain = !key.empty() && key.find_first_not_of(kPlain) == std::string::npos;
  return path_.empty() ? (plain ? key : quote(key)) : fmt::format("{}.{}", path_, plain ? key : quote(key));
}

void JsonValue::refuse(std::string_view rule) const {
  throw FormatError(fmt::format("{}: {} {}", *file_, path_.empty() ? "the document" : path_, rule));
}

void JsonValue::require(bool fits, std::string_view kind) const {
  if (!fits) refuse(fmt::format("must be {}, is {}", kind, json_->type_name()));
}

JsonDocument::JsonDocument(std::string_view text, const std::string& file)
    : json_(std::make_unique<nlohmann::json>()), file_(file) {
  TreeBuilder(file, *json_).parse(text);
}

JsonDocument::~JsonDocument() = default;

JsonDocument JsonDocument::of_config(const std::string& path) {
  constexpr std::size_t kMostBytes = 1 << 20;
  return JsonDocument(read_file(path, kMostBytes), path);
}

}  // namespace qkv::io
