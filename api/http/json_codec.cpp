#include "api/http/json_codec.h"

#include <algorithm>
#include <utility>

namespace http {

using shared::Error;
using shared::ErrorCode;
using shared::Result;

namespace {

Error invalid(std::string message) {
    return {ErrorCode::invalid, std::move(message), {}};
}

/// Builds the value, and stops at what a lenient reader would change in silence.
class StrictReader final : public nlohmann::json_sax<Json> {
  public:
    Json take() { return std::move(root_); }
    const std::string& failure() const { return failure_; }

    bool null() override { return put(Json()); }
    bool boolean(bool value) override { return put(Json(value)); }
    bool number_integer(number_integer_t value) override { return put(Json(value)); }
    bool number_unsigned(number_unsigned_t value) override { return put(Json(value)); }
    bool number_float(number_float_t value, const string_t& text) override {
        // An integer arrives here when 64 bits could not hold it.
        if (text.find_first_of(".eE") == std::string::npos)
            return fail("the number " + text.substr(0, 40) + " does not fit into 64 bits");
        return put(Json(value));
    }
    bool string(string_t& text) override { return put(Json(std::move(text))); }
    bool binary(binary_t&) override { return fail("binary values are not JSON"); }

    bool start_object(std::size_t) override { return open(Json::object()); }
    bool key(string_t& name) override {
        if (open_.back()->contains(name)) return fail("the key \"" + name + "\" stands twice");
        key_ = std::move(name);
        return true;
    }
    bool end_object() override { return close(); }
    bool start_array(std::size_t) override { return open(Json::array()); }
    bool end_array() override { return close(); }

    bool parse_error(std::size_t position, const std::string&,
                     const nlohmann::detail::exception& why) override {
        if (why.id == 406) return fail("a number is out of range");
        return fail("not JSON at byte " + std::to_string(position));
    }

  private:
    bool fail(std::string why) {
        failure_ = std::move(why);
        return false;
    }
    Json* add(Json value) {
        if (open_.empty()) return &(root_ = std::move(value));
        Json& parent = *open_.back();
        if (parent.is_object()) return &(parent[key_] = std::move(value));
        parent.push_back(std::move(value));
        return &parent.back();
    }
    bool put(Json value) {
        add(std::move(value));
        return true;
    }
    bool open(Json value) {
        if (open_.size() == kMaxJsonDepth)
            return fail("nested more than " + std::to_string(kMaxJsonDepth) + " levels deep");
        // Parents stay where they are while a child is open: nothing is added beside it.
        open_.push_back(add(std::move(value)));
        return true;
    }
    bool close() {
        open_.pop_back();
        return true;
    }

    Json root_;
    std::vector<Json*> open_;
    std::string key_;
    std::string failure_;
};

}  // namespace

Result<Json> parse_json(std::string_view text) {
    if (text.empty()) return invalid("the body is empty, JSON was expected");
    if (text.substr(0, 3) == "\xef\xbb\xbf")
        return invalid("JSON must not start with a byte order mark");
    if (text.find('\0') != std::string_view::npos)
        return invalid("JSON must be UTF-8 without NUL bytes");
    StrictReader reader;
    if (!Json::sax_parse(text.begin(), text.end(), &reader))
        return invalid(reader.failure().empty() ? "not JSON" : reader.failure());
    return reader.take();
}

std::string dump_json(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Response json_response(const Json& value, int status) {
    Response response;
    response.status = status;
    response.body = dump_json(value);
    return response;
}

Fields::Fields(std::string_view body) {
    auto parsed = parse_json(body);
    if (!parsed) {
        failure_ = std::move(parsed).error();
    } else if (!parsed->is_object()) {
        failure_ = invalid("the body must be a JSON object");
    } else {
        object_ = std::move(*parsed);
    }
}

Fields::Fields(const Json& object, std::string where) : where_(std::move(where)) {
    if (object.is_object())
        object_ = object;
    else
        failure_ = invalid(where_ + " must be an object");
}

std::string Fields::named(const char* name) const {
    return where_.empty() ? name : where_ + "." + name;
}

void Fields::fail(std::string message) {
    if (!failure_) failure_ = invalid(std::move(message));
}

const Json* Fields::find(const char* name, bool required) {
    asked_.emplace_back(name);
    if (failure_) return nullptr;
    const auto found = object_.find(name);
    if (found != object_.end() && !found->is_null()) return &*found;
    if (required) fail(named(name) + " is missing");
    return nullptr;
}

std::string Fields::text(const char* name, std::size_t max_bytes) {
    auto found = optional_text(name, max_bytes);
    if (!found) fail(named(name) + " is missing");
    return found.value_or("");
}

std::optional<std::string> Fields::optional_text(const char* name, std::size_t max_bytes) {
    const Json* value = find(name, false);
    if (!value) return std::nullopt;
    if (!value->is_string()) {
        fail(named(name) + " must be a text");
        return std::nullopt;
    }
    auto found = value->get<std::string>();
    if (found.size() > max_bytes) {
        fail(named(name) + " is longer than " + std::to_string(max_bytes) + " bytes");
        return std::nullopt;
    }
    return found;
}

std::int64_t Fields::integer(const char* name, std::int64_t least, std::int64_t most) {
    auto found = optional_integer(name, least, most);
    if (!found) fail(named(name) + " is missing");
    return found.value_or(0);
}

std::optional<std::int64_t> Fields::optional_integer(const char* name, std::int64_t least,
                                                     std::int64_t most) {
    const Json* value = find(name, false);
    if (!value) return std::nullopt;
    if (!value->is_number_integer()) {
        fail(named(name) + " must be a whole number");
        return std::nullopt;
    }
    const bool over = value->is_number_unsigned() && value->get<std::uint64_t>() > INT64_MAX;
    const auto number = over ? INT64_MAX : value->get<std::int64_t>();
    if (over || number < least || number > most) {
        fail(named(name) + " must be between " + std::to_string(least) + " and " +
             std::to_string(most));
        return std::nullopt;
    }
    return number;
}

bool Fields::boolean_or(const char* name, bool otherwise) {
    const Json* value = find(name, false);
    if (!value) return otherwise;
    if (!value->is_boolean()) {
        fail(named(name) + " must be true or false");
        return otherwise;
    }
    return value->get<bool>();
}

std::optional<Json> Fields::optional_object(const char* name) {
    const Json* value = find(name, false);
    if (!value) return std::nullopt;
    if (!value->is_object()) {
        fail(named(name) + " must be an object");
        return std::nullopt;
    }
    return *value;
}

std::optional<Json> Fields::optional_value(const char* name) {
    const Json* value = find(name, false);
    if (!value) return std::nullopt;
    return *value;
}

Result<void> Fields::finish() {
    if (!failure_) {
        for (const auto& [name, value] : object_.items())
            if (std::find(asked_.begin(), asked_.end(), name) == asked_.end())
                fail("unknown field " + named(name.c_str()));
    }
    return finish_open();
}

Result<void> Fields::finish_open() const {
    if (failure_) return *failure_;
    return {};
}

}  // namespace http
