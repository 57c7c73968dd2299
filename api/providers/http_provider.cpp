// A provider behind HTTP: codec, parser and client put together.
#include <optional>

#include "api/providers/anthropic.h"
#include "api/providers/chat_completions.h"
#include "api/providers/codec.h"
#include "api/providers/demo.h"
#include "api/providers/http_client.h"
#include "api/providers/provider.h"
#include "api/providers/provider_json.h"
#include "api/providers/responses.h"
#include "api/providers/retry.h"
#include "api/providers/sse_parser.h"

namespace providers {
namespace {

constexpr std::size_t kMaxErrorWords = 600;

// Collects the completion while the sink sees each event.
class Collector {
  public:
    explicit Collector(EventSink& sink) : sink_(sink) {}

    /// False once the answer has ended.
    bool take(const std::vector<ModelEvent>& events) {
        for (const auto& event : events) {
            if (const auto* error = std::get_if<StreamError>(&event)) {
                failure_ = Failure{FailureKind::provider, error->message};
                if (!error->code.empty()) failure_->message += " (" + error->code + ")";
                failure_->retryable = error->retryable;
                return false;
            }
            if (const auto* text = std::get_if<TextDelta>(&event)) completion_.text += text->text;
            if (const auto* part = std::get_if<ReasoningDelta>(&event))
                completion_.reasoning += part->text;
            if (const auto* call = std::get_if<ToolCallDone>(&event))
                completion_.calls.push_back(*call);
            if (const auto* usage = std::get_if<Usage>(&event)) completion_.usage = *usage;
            const auto* completed = std::get_if<Completed>(&event);
            if (completed) {
                completion_.stop = completed->stop;
                is_whole_ = true;
            } else if (!std::holds_alternative<Usage>(event)) {
                output_started_ = true;
            }
            sink_.on_event(event);
        }
        return !is_whole_;
    }

    void fail(Failure failure) {
        if (!failure_) failure_ = std::move(failure);
    }
    bool is_whole() const { return is_whole_; }
    bool failed() const { return failure_.has_value(); }
    Outcome outcome() && {
        if (is_whole_ && !failure_) return std::move(completion_);
        failure_->output_started = output_started_;
        return std::move(*failure_);
    }

  private:
    EventSink& sink_;
    Completion completion_;
    std::optional<Failure> failure_;
    bool is_whole_ = false;
    bool output_started_ = false;
};

std::string error_words(int status, const std::string& body) {
    std::string said;
    if (const auto value = parse_json(body)) {
        const auto& error = member_of(*value, "error");
        said = error.is_string() ? error.get<std::string>() : text_of(error, "message");
        if (said.empty()) said = text_of(*value, "message");
    }
    if (said.empty()) said = body;
    if (said.size() > kMaxErrorWords) said = said.substr(0, kMaxErrorWords) + "...";
    std::string message = "the provider answered " + std::to_string(status);
    if (!said.empty()) message += ": " + said;
    return message;
}

void blot_out(std::string& text, const std::string& secret) {
    if (secret.empty()) return;
    for (std::size_t at = 0; (at = text.find(secret, at)) != text.npos;)
        text.replace(at, secret.size(), "***");
}

class HttpProvider : public Provider {
  public:
    HttpProvider(Profile profile, Url url, std::unique_ptr<Codec> codec, Environment environment)
        : profile_(std::move(profile)),
          url_(std::move(url)),
          codec_(std::move(codec)),
          environment_(std::move(environment)) {}

    Outcome run(const ModelRequest& request, EventSink& sink, CancelToken& cancel) override {
        const auto key = read_key(profile_, environment_);
        if (!key) return Failure{FailureKind::config, key.error().message};
        auto proxy = choose_proxy(url_, environment_);
        if (!proxy) return Failure{FailureKind::config, proxy.error().message};

        HttpRequest wanted;
        wanted.url = url_;
        wanted.url.path += codec_->path();
        wanted.proxy = std::move(*proxy);
        wanted.read_deadline = profile_.timeout;
        wanted.headers = codec_->headers(*key);
        wanted.headers.emplace_back("Content-Type", "application/json");
        wanted.headers.emplace_back("Accept", "text/event-stream");
        for (const auto& header : profile_.headers) wanted.headers.push_back(header);
        for (const auto& [name, value] : wanted.headers)
            if ((name + value).find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos)
                return Failure{FailureKind::config, "the header " + name + " has a line break"};
        wanted.body = codec_->encode(request);

        Collector collector(sink);
        SseParser parser;
        auto decoder = codec_->decoder();
        const auto answer = post(
            std::move(wanted),
            [&](std::string_view bytes) {
                auto events = parser.feed(bytes);
                if (!events) {
                    collector.fail({FailureKind::protocol, events.error().message});
                    return false;
                }
                for (const auto& event : *events)
                    if (!collector.take(decoder->feed(event.name, event.data))) return false;
                return true;
            },
            cancel);

        if (answer.cancelled) {
            collector.fail({FailureKind::cancelled, "cancelled"});
        } else if (answer.status == 0 || (answer.status == 200 && !answer.problem.empty())) {
            collector.fail({FailureKind::transport, url_.host + ": " + answer.problem});
        } else if (answer.status != 200) {
            Failure failure{FailureKind::status, error_words(answer.status, answer.error_body)};
            failure.status = answer.status;
            failure.retry_after = parse_retry_after(answer.retry_after, shared::wall_ms());
            blot_out(failure.message, *key);
            collector.fail(std::move(failure));
        } else if (!collector.is_whole() && !collector.failed()) {
            collector.take(decoder->end());
        }
        return std::move(collector).outcome();
    }

  private:
    Profile profile_;
    Url url_;
    std::unique_ptr<Codec> codec_;
    Environment environment_;
};

std::unique_ptr<Codec> codec_of(Protocol protocol) {
    switch (protocol) {
        case Protocol::chat_completions:
            return std::make_unique<ChatCompletionsCodec>();
        case Protocol::anthropic:
            return std::make_unique<AnthropicCodec>();
        default:
            return std::make_unique<ResponsesCodec>();
    }
}

}  // namespace

shared::Result<std::unique_ptr<Provider>> make_provider(const Profile& profile,
                                                        const Environment& environment) {
    if (profile.protocol == Protocol::demo)
        return std::unique_ptr<Provider>(std::make_unique<DemoProvider>());
    auto url = parse_url(profile.base_url);
    if (!url) return url.error();
    return std::unique_ptr<Provider>(std::make_unique<HttpProvider>(
        profile, std::move(*url), codec_of(profile.protocol), environment));
}

}  // namespace providers
