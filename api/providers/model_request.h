// What a turn asks of a model, in no protocol's words. Plain values; the transcript makes them, a
// codec turns them into one protocol's JSON.
//
// Rules that the maker keeps and codecs rely on: every ToolCallItem is followed by exactly one
// ToolResultItem of its call_id before the next user or assistant text; a call_id is used once.
#pragma once

#include <string>
#include <variant>
#include <vector>

namespace providers {

struct UserItem {
    std::string text;
};
struct AssistantItem {
    std::string text;
};
struct ToolCallItem {
    std::string call_id;  // [A-Za-z0-9_-], at most 64
    std::string name;
    std::string arguments;  // a JSON object as text
};
struct ToolResultItem {
    std::string call_id;
    std::string output;  // JSON as text
};
using Item = std::variant<UserItem, AssistantItem, ToolCallItem, ToolResultItem>;

struct ToolSpec {
    std::string name;
    std::string description;
    std::string parameters;  // JSON Schema as text; ours, so it parses
};

struct ModelRequest {
    std::string model;
    std::string instructions;
    std::vector<Item> items;
    std::vector<ToolSpec> tools;
};

}  // namespace providers
