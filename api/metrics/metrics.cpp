#include "api/metrics/metrics.h"

#include <cmath>
#include <cstdio>
#include <numeric>

namespace metrics {

namespace {

struct Family {
    const char* name;
    const char* help;
    std::vector<const char*> labels;
};

const Family& family_of(Count family) {
    static const std::array<Family, static_cast<std::size_t>(Count::kCount)> kFamilies{{
        {"albedo_http_requests_total",
         "Requests answered, by route and status.",
         {"method", "route", "status"}},
        {"albedo_host_calls_total",
         "Questions to a host's agent, by how they ended.",
         {"host", "outcome"}},
        {"albedo_cells_total", "Cells that ended, by status.", {"status"}},
        {"albedo_turns_total", "Turns of a model that ended, by outcome.", {"outcome"}},
        {"albedo_provider_attempts_total",
         "Requests to a model's provider, by how they ended.",
         {"profile", "outcome"}},
        {"albedo_kernel_reattaches_total",
         "Kernels attached again after their connection broke.",
         {"host"}},
    }};
    return kFamilies[static_cast<std::size_t>(family)];
}

const Family& family_of(Time family) {
    static const std::array<Family, static_cast<std::size_t>(Time::kCount)> kFamilies{{
        {"albedo_http_request_seconds",
         "Time until a request had its answer; of a stream, its head.",
         {"route"}},
        {"albedo_host_call_seconds", "Time until a host's agent had answered.", {"host"}},
        {"albedo_kernel_reattach_seconds",
         "Time from a broken connection until its kernel was attached again.",
         {"host"}},
    }};
    return kFamilies[static_cast<std::size_t>(family)];
}

void append_escaped(std::string& text, std::string_view value) {
    for (const char c : value) {
        if (c == '\\' || c == '"')
            text += {'\\', c};
        else if (c == '\n')
            text += "\\n";
        else
            text += c;
    }
}

std::string number(double value) {
    if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    char text[32];
    const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
    std::snprintf(text, sizeof text, whole ? "%.0f" : "%.9g", value);
    return text;
}

Page::Labels named(const Family& family, const std::vector<std::string>& values) {
    Page::Labels labels;
    for (std::size_t i = 0; i < family.labels.size() && i < values.size(); ++i)
        labels.emplace_back(family.labels[i], values[i]);
    return labels;
}

}  // namespace

void Page::family(std::string_view name, std::string_view type, std::string_view help) {
    text_.append("# HELP ").append(name) += ' ';
    append_escaped(text_, help);
    text_.append("\n# TYPE ").append(name).append(" ").append(type) += '\n';
}

void Page::sample(std::string_view name, const Labels& labels, double value) {
    text_.append(name);
    char before = '{';
    for (const auto& [label, text] : labels) {
        text_ += before;
        text_.append(label).append("=\"");
        append_escaped(text_, text);
        text_ += '"';
        before = ',';
    }
    if (!labels.empty()) text_ += '}';
    text_.append(" ").append(number(value)) += '\n';
}

template <class Series>
Series& Metrics::at(std::map<Key, Series>& series,
                    std::initializer_list<std::string_view> values) {
    Key key(values.begin(), values.end());
    if (series.size() >= kMaxSeries && series.count(key) == 0) key.assign(key.size(), "other");
    return series[key];
}

void Metrics::add(Count family, std::initializer_list<std::string_view> values,
                  std::uint64_t amount) {
    std::lock_guard lock(mutex_);
    at(counts_[static_cast<std::size_t>(family)], values) += amount;
}

void Metrics::observe(Time family, std::initializer_list<std::string_view> values,
                      std::chrono::nanoseconds took) {
    const double seconds = std::chrono::duration<double>(took).count();
    std::size_t bucket = 0;
    while (bucket < kBuckets.size() && seconds > kBuckets[bucket]) ++bucket;
    std::lock_guard lock(mutex_);
    auto& histogram = at(times_[static_cast<std::size_t>(family)], values);
    ++histogram.counts[bucket];
    histogram.sum += seconds;
}

double Metrics::quantile(Time family, std::initializer_list<std::string_view> values,
                         double q) const {
    std::lock_guard lock(mutex_);
    const auto& series = times_[static_cast<std::size_t>(family)];
    const auto found = series.find(Key(values.begin(), values.end()));
    if (found == series.end()) return 0;
    const auto& counts = found->second.counts;
    const double wanted = q * static_cast<double>(
                                  std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
    std::uint64_t so_far = 0;
    for (std::size_t bucket = 0; bucket < kBuckets.size(); ++bucket) {
        so_far += counts[bucket];
        if (static_cast<double>(so_far) >= wanted) return kBuckets[bucket];
    }
    return kBuckets.back();
}

void Metrics::write(Page& page) const {
    std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < counts_.size(); ++i) {
        const Family& family = family_of(static_cast<Count>(i));
        page.family(family.name, "counter", family.help);
        for (const auto& [values, count] : counts_[i])
            page.sample(family.name, named(family, values), static_cast<double>(count));
    }
    for (std::size_t i = 0; i < times_.size(); ++i) {
        const Family& family = family_of(static_cast<Time>(i));
        page.family(family.name, "histogram", family.help);
        const std::string name = family.name;
        for (const auto& [values, histogram] : times_[i]) {
            auto labels = named(family, values);
            std::uint64_t so_far = 0;
            for (std::size_t bucket = 0; bucket <= kBuckets.size(); ++bucket) {
                so_far += histogram.counts[bucket];
                const std::string bound =
                    bucket < kBuckets.size() ? number(kBuckets[bucket]) : "+Inf";
                auto with_bound = labels;
                with_bound.emplace_back("le", bound);
                page.sample(name + "_bucket", with_bound, static_cast<double>(so_far));
            }
            page.sample(name + "_sum", labels, histogram.sum);
            page.sample(name + "_count", labels, static_cast<double>(so_far));
        }
    }
}

}  // namespace metrics
