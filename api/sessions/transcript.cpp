#include "api/sessions/transcript.h"

#include <algorithm>
#include <map>
#include <set>

#include "api/providers/python_tool.h"

namespace sessions {
namespace {

using providers::Item;

std::size_t bytes_of(const Item& item) {
    return std::visit(
        [](const auto& value) -> std::size_t {
            using Value = std::decay_t<decltype(value)>;
            if constexpr (std::is_same_v<Value, providers::ToolCallItem>)
                return value.arguments.size() + 128;
            else if constexpr (std::is_same_v<Value, providers::ToolResultItem>)
                return value.output.size() + 128;
            else
                return value.text.size() + 64;
        },
        item);
}

/// Both ends of a text that is too long: in a result, the start says what ran and the end how it
/// went.
std::string both_ends(const std::string& text, std::size_t limit) {
    if (text.size() <= limit) return text;
    auto is_inside = [&](std::size_t at) {
        return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
    };
    std::size_t head = limit / 2;
    std::size_t tail = text.size() - limit / 2;
    while (head > 0 && is_inside(head)) --head;
    while (tail < text.size() && is_inside(tail)) ++tail;
    return text.substr(0, head) + "\n... " + std::to_string(tail - head) + " bytes left out ...\n" +
           text.substr(tail);
}

/// A provider's id made fit for every provider, and for one use.
class CallIds {
  public:
    std::string unique(const std::string& given) {
        std::string id;
        for (char c : given)
            id += (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          c == '_' || c == '-'
                      ? c
                      : '_';
        if (id.empty()) id = "call";
        id = id.substr(0, kMaxCallIdBytes);
        std::string candidate = id;
        for (std::size_t count = 2; !used_.insert(candidate).second; ++count) {
            const auto suffix = "-" + std::to_string(count);
            candidate = id.substr(0, kMaxCallIdBytes - suffix.size()) + suffix;
        }
        return candidate;
    }

  private:
    std::set<std::string> used_;
};

}  // namespace

const TranscriptRow& Transcript::append(RowContent content, std::int64_t at_ms) {
    const auto seq = rows_.empty() ? 1 : rows_.back().seq + 1;
    return rows_.emplace_back(TranscriptRow{seq, at_ms, std::move(content)});
}

std::vector<const TranscriptRow*> Transcript::open_calls() const {
    std::vector<const TranscriptRow*> open;
    for (const auto& row : rows_) {
        if (std::holds_alternative<ToolCallRow>(row.content)) open.push_back(&row);
        if (const auto* result = std::get_if<ToolResultRow>(&row.content))
            std::erase_if(open, [&](const auto* call) { return call->seq == result->call; });
    }
    return open;
}

std::vector<Item> Transcript::render(std::size_t max_bytes) const {
    std::map<std::int64_t, const ToolResultRow*> results;  // by call; the first one counts
    for (const auto& row : rows_)
        if (const auto* result = std::get_if<ToolResultRow>(&row.content))
            results.emplace(result->call, result);

    std::vector<Item> items;
    std::vector<std::size_t> turns;  // where a user's message stands that nothing open precedes
    std::vector<Item> answers;       // of the calls at the end of `items`
    CallIds ids;
    auto close_calls = [&] {
        std::move(answers.begin(), answers.end(), std::back_inserter(items));
        answers.clear();
    };
    for (const auto& row : rows_) {
        if (const auto* user = std::get_if<UserRow>(&row.content)) {
            close_calls();
            turns.push_back(items.size());
            items.push_back(providers::UserItem{user->text});
        } else if (const auto* text = std::get_if<TextRow>(&row.content)) {
            if (text->text.empty()) continue;
            close_calls();
            items.push_back(providers::AssistantItem{text->text});
        } else if (const auto* call = std::get_if<ToolCallRow>(&row.content)) {
            const auto id = ids.unique(call->call_id);
            items.push_back(providers::ToolCallItem{id, call->name, call->arguments});
            const auto found = results.find(row.seq);
            answers.push_back(providers::ToolResultItem{
                id, found != results.end()
                        ? both_ends(found->second->result, kMaxResultBytes)
                        : providers::stand_in_result(
                              "unknown",
                              "Nobody knows whether this ran, or how far: look before "
                              "you repeat it.")});
        } else if (std::holds_alternative<ToolResultRow>(row.content)) {
            close_calls();  // what follows belongs to the model's next answer
        }
    }
    close_calls();

    std::size_t bytes = 0;
    for (const auto& item : items) bytes += bytes_of(item);
    std::size_t from = 0;
    for (std::size_t turn = 1; turn < turns.size() && bytes > max_bytes; ++turn)
        for (; from < turns[turn]; ++from) bytes -= bytes_of(items[from]);
    // One turn alone is too long: its oldest steps go, each call with its result. The user's
    // message that began it stays.
    std::size_t until = from;
    std::size_t kept = from;
    if (bytes > max_bytes && !turns.empty()) {
        kept = turns.back() + 1;
        for (until = kept; until < items.size() && bytes > max_bytes;) {
            auto step = until;
            do bytes -= bytes_of(items[step++]);
            while (step < items.size() &&
                   !(std::holds_alternative<providers::ToolResultItem>(items[step - 1]) &&
                     !std::holds_alternative<providers::ToolResultItem>(items[step])));
            if (step == items.size()) break;  // the newest step stays, whatever its size
            until = step;
        }
        from = turns.back();
    }
    if (from == 0 && until == kept) return items;
    std::vector<Item> shown;
    if (from > 0)
        shown.push_back(providers::UserItem{"(Earlier messages of this session are left out.)"});
    for (std::size_t at = from; at < items.size(); ++at) {
        if (at == kept && until > kept)
            shown.push_back(providers::AssistantItem{"(Earlier steps of this turn are left out.)"});
        if (at < kept || at >= until) shown.push_back(std::move(items[at]));
    }
    return shown;
}

}  // namespace sessions
