// What the api counts, and its text for Prometheus (exposition format 0.0.4).
//
// Counters and histograms live here, fed by whoever does the work; what can be read when somebody
// asks (queues, processes, states) is added then, as gauges, by routes_metrics. One lock, held for a
// lookup in a small map; a family holds at most kMaxSeries series, what is beyond counts under
// `other`, so that no client and no host can make it grow.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace metrics {

inline constexpr std::size_t kMaxSeries = 1024;

enum class Count : std::uint8_t {
    http_requests,      // method, route, status
    host_calls,         // host, outcome
    cells,              // status
    turns,              // outcome
    provider_attempts,  // profile, outcome
    reattaches,         // host
    kCount,
};

enum class Time : std::uint8_t {
    http_requests,  // route
    host_calls,     // host
    reattaches,     // host
    kCount,
};

/// Upper bounds in seconds; there is one more bucket without a bound.
inline constexpr std::array<double, 14> kBuckets{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                 0.1,    0.25,  0.5,    1,     2.5,  10,    60};

/// One family after the other, each with its samples. Label values and help texts are escaped.
class Page {
  public:
    /// `type`: "counter", "gauge" or "histogram".
    void family(std::string_view name, std::string_view type, std::string_view help);
    using Labels = std::vector<std::pair<std::string_view, std::string_view>>;
    void sample(std::string_view name, const Labels& labels, double value);
    std::string take() { return std::move(text_); }

  private:
    std::string text_;
};

/// Any thread.
class Metrics {
  public:
    /// `values` in the order that the family names its labels.
    void add(Count family, std::initializer_list<std::string_view> values,
             std::uint64_t amount = 1);
    void observe(Time family, std::initializer_list<std::string_view> values,
                 std::chrono::nanoseconds took);

    /// An estimate from the buckets, in seconds: the upper bound of the one that holds it. 0 when
    /// nothing was observed.
    double quantile(Time family, std::initializer_list<std::string_view> values, double q) const;

    void write(Page& page) const;

  private:
    struct Histogram {
        std::array<std::uint64_t, kBuckets.size() + 1> counts{};
        double sum = 0;
    };
    using Key = std::vector<std::string>;
    template <class Series>
    static Series& at(std::map<Key, Series>& series,
                      std::initializer_list<std::string_view> values);

    mutable std::mutex mutex_;
    std::array<std::map<Key, std::uint64_t>, static_cast<std::size_t>(Count::kCount)> counts_;
    std::array<std::map<Key, Histogram>, static_cast<std::size_t>(Time::kCount)> times_;
};

}  // namespace metrics
