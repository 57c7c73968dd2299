// Which handler answers which method and path. Pure.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/http/server.h"

namespace http {

struct Route {
    std::string method;
    std::string pattern;  // for logs
    Handler handler;
    RouteOptions options;
};

class Router {
  public:
    /// A bug when there is such a route already, or the pattern does not start with "/".
    void add(Route route);

    struct Match {
        const Route* route = nullptr;  // none: see `allowed`
        std::map<std::string, std::string, std::less<>> parameters;
        std::string allowed;  // "GET, POST" when the path is known, but not by this method
    };
    /// `path` is still escaped; each segment is unescaped by itself, so that %2F is no border.
    Match find(std::string_view method, std::string_view path) const;

  private:
    struct Entry {
        std::vector<std::string> segments;
        Route route;
    };
    std::vector<std::unique_ptr<Entry>> entries_;  // literal segments before parameters
};

}  // namespace http
