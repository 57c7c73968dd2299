#include "hostagent/ssh_failure.h"

#include <algorithm>
#include <array>
#include <vector>

namespace hostagent {

namespace {

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

std::string lower(std::string_view text) {
    std::string result(text);
    for (char& c : result)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return result;
}

std::string_view trimmed(std::string_view text) {
    const auto first = text.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const auto end = std::min(text.find('\n'), text.size());
        if (const auto line = trimmed(text.substr(0, end)); !line.empty()) lines.push_back(line);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

/// ssh's words about itself that explain no failure.
bool is_chatter(std::string_view line) {
    static constexpr std::array<std::string_view, 9> kStarts{"debug",
                                                             "warning: permanently added",
                                                             "** ",
                                                             "mux_client",
                                                             "controlsocket ",
                                                             "pseudo-terminal",
                                                             "shared connection to",
                                                             "connection closed by unknown",
                                                             "warning: no xauth"};
    const std::string text = lower(line);
    return std::any_of(kStarts.begin(), kStarts.end(),
                       [&](std::string_view start) { return text.rfind(start, 0) == 0; });
}

/// Length of the well-formed UTF-8 sequence at the start of `text`, 0 if there is none.
std::size_t sequence_length(std::string_view text) {
    const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = at(0);
    if (first < 0x80) return 1;
    const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
    for (std::size_t i = 1; i < length; ++i)
        if ((at(i) & 0xc0) != 0x80) return 0;
    const unsigned char second = at(1);  // overlong forms, surrogates, beyond U+10FFFF
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
        return 0;
    return length;
}

}  // namespace

std::string printable(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const std::size_t length = sequence_length(text);
        const auto first = static_cast<unsigned char>(text.front());
        const bool c1 = length == 2 && first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
        if (length == 1 && (first == '\n' || first == '\t' || first == '\r'))
            result += ' ';
        else if (length == 0 || c1 || (length == 1 && (first < ' ' || first == 0x7f)))
            result += '?';
        else
            result += text.substr(0, length);
        text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return result;
}

std::string last_words(std::string_view stderr_text) {
    const auto lines = lines_of(stderr_text);
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
        if (is_chatter(*line)) continue;
        std::string words = printable(line->substr(0, 4 * kMaxDetailBytes));
        if (words.size() > kMaxDetailBytes) {
            std::size_t end = kMaxDetailBytes;
            while (end > 0 && (static_cast<unsigned char>(words[end]) & 0xc0) == 0x80) --end;
            words.resize(end);
        }
        return words;
    }
    return {};
}

Verdict ssh_failure(std::string_view stderr_text) {
    Verdict verdict{shared::HostState::unreachable, last_words(stderr_text)};
    static constexpr std::array<std::string_view, 8> kSignIn{"permission denied",
                                                             "host key verification",
                                                             "passphrase",
                                                             "keyboard-interactive",
                                                             "verification code",
                                                             "too many authentication failures",
                                                             "authentication failed",
                                                             "no supported authentication methods"};
    const std::string words = lower(verdict.detail);
    for (const auto sign : kSignIn)
        if (contains(words, sign)) verdict.state = shared::HostState::needs_auth;
    // A changed key is told in a block of lines, the place to look at among them.
    if (contains(stderr_text, "REMOTE HOST IDENTIFICATION HAS CHANGED")) {
        verdict.state = shared::HostState::needs_auth;
        std::string where;
        for (const auto line : lines_of(stderr_text))
            if (line.rfind("Offending ", 0) == 0)
                where = printable(line.substr(0, kMaxDetailBytes)) + ". ";
        verdict.detail = "host key changed. " + where + verdict.detail;
    }
    if (verdict.detail.empty()) verdict.detail = "ssh failed without a word";
    return verdict;
}

bool is_ssh_failure(const shared::ExitStatus& status) {
    return !status.signalled && status.code == 255;
}

bool is_turned_away(std::string_view stderr_text) {
    return contains(stderr_text, "kex_exchange_identification") ||
           contains(stderr_text, "Exceeded MaxStartups");
}

bool is_session_refused(std::string_view stderr_text) {
    return contains(stderr_text, "Session open refused");
}

}  // namespace hostagent
