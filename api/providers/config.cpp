#include "api/providers/config.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>

#include "api/providers/provider_json.h"

namespace providers {
namespace {

using nlohmann::json;
using shared::Error;
using shared::ErrorCode;

Error invalid(std::string message) {
    return {ErrorCode::invalid, std::move(message), {}};
}

std::string place_of(std::string_view text, std::size_t byte) {
    std::size_t line = 1;
    std::size_t column = 1;
    for (std::size_t at = 0; at + 1 < byte && at < text.size(); ++at) {
        ++column;
        if (text[at] == '\n') {
            ++line;
            column = 1;
        }
    }
    return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

std::optional<Protocol> protocol_of(const std::string& text) {
    for (auto protocol :
         {Protocol::responses, Protocol::chat_completions, Protocol::anthropic, Protocol::demo})
        if (text == to_string(protocol)) return protocol;
    return std::nullopt;
}

shared::Result<Profile> parse_profile(const std::string& name, const json& value,
                                      std::vector<std::string>& warnings) {
    const std::string place = "providers." + name;
    if (!value.is_object()) return invalid(place + " must be an object");
    Profile profile;
    profile.name = name;
    const std::map<std::string, std::string*> texts = {{"baseUrl", &profile.base_url},
                                                       {"model", &profile.model},
                                                       {"apiKey", &profile.key},
                                                       {"apiKeyEnv", &profile.key_variable},
                                                       {"apiKeyFile", &profile.key_file}};
    for (const auto& [key, member] : value.items()) {
        const std::string where = place + "." + key;
        if (auto text = texts.find(key); text != texts.end()) {
            if (!member.is_string()) return invalid(where + " must be a text");
            *text->second = member.get<std::string>();
        } else if (key == "protocol") {
            auto protocol = protocol_of(text_of(value, "protocol"));
            if (!protocol)
                return invalid(where + " must be responses, chat_completions or anthropic");
            profile.protocol = *protocol;
        } else if (key == "headers") {
            if (!member.is_object()) return invalid(where + " must be an object");
            for (const auto& [header, content] : member.items()) {
                if (!content.is_string()) return invalid(where + "." + header + " must be a text");
                profile.headers.emplace_back(header, content.get<std::string>());
            }
        } else if (key == "timeoutSeconds") {
            if (!member.is_number_integer() || member.get<double>() < 1 ||
                member.get<double>() > 3600)
                return invalid(where + " must be a whole number from 1 to 3600");
            profile.timeout = std::chrono::seconds(member.get<int>());
        } else {
            warnings.push_back(where);
        }
    }
    if (profile.protocol == Protocol::demo) return profile;
    if (profile.model.empty()) return invalid(place + ".model is missing");
    if (auto url = parse_url(profile.base_url); !url)
        return invalid(place + ".baseUrl: " + url.error().message);
    const int keys =
        !profile.key.empty() + !profile.key_variable.empty() + !profile.key_file.empty();
    if (keys > 1) return invalid(place + " names more than one of apiKey, apiKeyEnv, apiKeyFile");
    return profile;
}

}  // namespace

const char* to_string(Protocol protocol) {
    switch (protocol) {
        case Protocol::responses:
            return "responses";
        case Protocol::chat_completions:
            return "chat_completions";
        case Protocol::anthropic:
            return "anthropic";
        case Protocol::demo:
            return "demo";
    }
    return "responses";
}

shared::Result<Profile> Config::profile(const std::string& name) const {
    auto found = profiles.find(name.empty() ? active : name);
    if (found != profiles.end()) return found->second;
    std::string known;
    for (const auto& [other, _] : profiles) known += (known.empty() ? "" : ", ") + other;
    return invalid("there is no provider \"" + (name.empty() ? active : name) +
                   "\"; there are: " + known);
}

shared::Result<Config> parse_config(std::string_view text) {
    json document;
    try {
        document = json::parse(text.begin(), text.end());
    } catch (const json::parse_error& error) {
        // The library's words may quote the text, and the text holds keys.
        return invalid("broken JSON at " + place_of(text, error.byte));
    } catch (const json::exception&) {
        return invalid("a number is out of range");
    }
    if (!document.is_object()) return invalid("the document must be an object");
    Config config;
    std::set<std::string> variables;
    for (const auto& [key, value] : document.items()) {
        if (key == "active") {
            if (!value.is_string()) return invalid("active must be a text");
            config.active = value.get<std::string>();
        } else if (key == "providers") {
            if (!value.is_object()) return invalid("providers must be an object");
            for (const auto& [name, content] : value.items()) {
                auto profile = parse_profile(name, content, config.warnings);
                if (!profile) return profile.error();
                if (!profile->key_variable.empty()) variables.insert(profile->key_variable);
                config.profiles.emplace(name, std::move(*profile));
            }
        } else {
            config.warnings.push_back(key);
        }
    }
    config.key_variables.assign(variables.begin(), variables.end());
    if (config.active.empty() && config.profiles.size() == 1)
        config.active = config.profiles.begin()->first;
    const std::string demo(kDemoProfile);
    if (!config.profiles.contains(demo)) {
        Profile profile;
        profile.name = demo;
        profile.protocol = Protocol::demo;
        profile.model = demo;
        config.profiles.emplace(demo, std::move(profile));
    }
    if (config.active.empty()) config.active = demo;
    if (!config.profiles.contains(config.active))
        return invalid("active names \"" + config.active + "\", which is not among the providers");
    return config;
}

shared::Result<std::string> read_key(const Profile& profile, const Environment& environment) {
    std::string key = profile.key;
    std::string source = "apiKey";
    if (!profile.key_variable.empty()) {
        source = "the variable " + profile.key_variable;
        auto value = environment(profile.key_variable.c_str());
        if (!value) return invalid(source + " with the key of " + profile.name + " is not set");
        key = *value;
    } else if (!profile.key_file.empty()) {
        source = profile.key_file;
        std::ifstream file(profile.key_file, std::ios::binary);
        key.resize(kMaxKeyBytes);
        file.read(key.data(), static_cast<std::streamsize>(key.size()));
        if (!file && !file.eof())
            return invalid(source + " with the key of " + profile.name + " cannot be read");
        key.resize(static_cast<std::size_t>(file.gcount()));
    } else if (key.empty()) {
        return key;
    }
    const auto first = key.find_first_not_of(" \t\r\n");
    if (first == key.npos)
        return invalid(source + " with the key of " + profile.name + " is empty");
    key = key.substr(first, key.find_last_not_of(" \t\r\n") - first + 1);
    for (unsigned char c : key)
        if (c <= 0x20 || c >= 0x7f)
            return invalid(source + " with the key of " + profile.name +
                           " holds characters that no key has");
    return key;
}

shared::Result<Config> ConfigFile::read() {
    std::lock_guard lock(mutex_);
    std::string text;
    std::error_code problem;
    const auto status = std::filesystem::status(file_, problem);
    if (std::filesystem::exists(status)) {
        if (!std::filesystem::is_regular_file(status))
            return invalid(file_.string() + " is not a file");
        std::ifstream file(file_, std::ios::binary);
        text.resize(kMaxConfigBytes + 1);
        file.read(text.data(), static_cast<std::streamsize>(text.size()));
        if (!file && !file.eof())
            return Error{ErrorCode::storage,
                         file_.string() + " cannot be read: " + std::strerror(errno),
                         {}};
        text.resize(static_cast<std::size_t>(file.gcount()));
        if (text.size() > kMaxConfigBytes) return invalid(file_.string() + " is over 1 MiB");
    } else {
        text = "{}";
    }
    // Compared by content: times and sizes can stay the same over a quick change.
    if (has_read_ && text == text_) return config_;
    config_ = parse_config(text);
    if (!config_) config_ = invalid(file_.string() + ": " + config_.error().message);
    text_ = std::move(text);
    has_read_ = true;
    return config_;
}

}  // namespace providers
