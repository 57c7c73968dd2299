#include "api/providers/demo.h"

#include "api/providers/provider_json.h"
#include "api/providers/python_tool.h"

namespace providers {
namespace {

struct Step {
    const char* words;
    const char* code;
};

constexpr Step kSteps[] = {
    {"I am albedo's demo: a script, not a model. First, where does this session's kernel run?",
     "import os, platform\n"
     "print('Python', platform.python_version(), 'on', platform.node())\n"
     "os.getcwd()"},
    {"Next, a name that the kernel should remember.",
     "entries = sorted(os.listdir('.'))\n"
     "f'{len(entries)} entries here'"},
    {"The next cell uses that name again, and prints while it runs.",
     "for entry in entries[:5]:\n"
     "    print(entry)\n"
     "len(entries)"},
};
constexpr std::size_t kStepCount = sizeof kSteps / sizeof kSteps[0];

/// What a result says, for the reader.
std::string told(const std::string& output) {
    const auto result = parse_json(output);
    if (!result) return "The cell's result could not be read.";
    const auto status = text_of(*result, "status");
    auto value = text_of(*result, "value");
    auto printed = text_of(*result, "output");
    if (status != "ok") return "The cell ended with status " + status + ". " + printed;
    while (printed.ends_with('\n')) printed.pop_back();
    std::string words = "The cell answered " + (value.empty() ? "without a value" : value) + ".";
    if (!printed.empty()) words += " It printed:\n" + printed;
    return words;
}

bool failed(const std::string& output) {
    const auto result = parse_json(output);
    return !result || text_of(*result, "status") != "ok";
}

}  // namespace

Outcome DemoProvider::run(const ModelRequest& request, EventSink& sink, CancelToken& cancel) {
    if (cancel.cancelled()) return Failure{FailureKind::cancelled, "cancelled"};
    std::size_t step = 0;
    const std::string* last = nullptr;
    for (const auto& item : request.items) {
        if (std::holds_alternative<UserItem>(item)) {
            step = 0;
            last = nullptr;
        } else if (const auto* result = std::get_if<ToolResultItem>(&item)) {
            ++step;
            last = &result->output;
        }
    }
    Completion completion;
    if (last) completion.text = told(*last) + "\n\n";
    const bool goes_on = step < kStepCount && !(last && failed(*last));
    if (goes_on)
        completion.text += kSteps[step].words;
    else
        completion.text +=
            "That was the demo. To work with a model, name one in config.json in albedo's home "
            "folder: baseUrl, model, protocol and apiKeyEnv.";
    for (std::size_t at = 0; at < completion.text.size();) {
        auto end = completion.text.find(' ', at);
        end = end == std::string::npos ? completion.text.size() : end + 1;
        sink.on_event(TextDelta{completion.text.substr(at, end - at)});
        at = end;
    }
    completion.stop = "stop";
    if (goes_on) {
        const ToolCallDone call{0, "demo-" + std::to_string(step), std::string(kPythonTool),
                                dump_json({{"code", kSteps[step].code}, {"timeout_ms", 60'000}})};
        sink.on_event(ToolCallStarted{0, call.name});
        sink.on_event(ToolCallArguments{0, call.arguments});
        sink.on_event(call);
        completion.calls.push_back(call);
        completion.stop = "tool_calls";
    }
    sink.on_event(Completed{completion.stop});
    return completion;
}

}  // namespace providers
