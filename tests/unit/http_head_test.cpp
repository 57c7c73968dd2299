#include <catch2/catch.hpp>

#include "api/http/access.h"
#include "api/http/request_head.h"
#include "api/http/router.h"
#include "api/http/sse.h"

using namespace http;

namespace {

RequestHead head_of(const std::string& headers) {
    auto parsed = parse_head("GET / HTTP/1.1\r\n" + headers + "\r\n");
    REQUIRE(parsed.ok());
    return *parsed;
}

std::string verdict(const std::string& headers) {
    const auto refused = refuse_access(head_of(headers), "secret");
    return refused ? shared::to_string(refused->code) : "";
}

}  // namespace

TEST_CASE("a head is found at its empty line, however it comes in") {
    const std::string bytes = "GET /a?b HTTP/1.1\r\nHost: x\r\n\r\nrest";
    std::size_t searched = 0;
    for (std::size_t size = 0; size < bytes.size() - 4; ++size)
        REQUIRE(find_head_end(std::string_view(bytes).substr(0, size), searched) ==
                std::string_view::npos);
    CHECK(find_head_end(bytes, searched) == bytes.size() - 4);
}

TEST_CASE("a head is read strictly") {
    const auto head = parse_head("POST /a%20b?x=1?2 HTTP/1.1\r\nHost:  h \r\nX-A:\r\n\r\n");
    REQUIRE(head.ok());
    CHECK(head->method == "POST");
    CHECK(head->path == "/a%20b");
    CHECK(head->query == "x=1?2");
    CHECK(*head->find("host") == "h");
    CHECK(head->find("x-a")->empty());
    for (const std::string bad :
         {"\r\n\r\n", "GET /\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n", "GET / HTTP/2\r\n\r\n",
          "GET a HTTP/1.1\r\n\r\n", "GET http://x/ HTTP/1.1\r\n\r\n", "G@T / HTTP/1.1\r\n\r\n",
          "GET / HTTP/1.1\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\n\r\n",
          "GET / HTTP/1.1\r\nHost : x\r\n\r\n", "GET / HTTP/1.1\r\n folded\r\n\r\n",
          "GET / HTTP/1.1\r\n: x\r\n\r\n", "GET / HTTP/1.1\r\nA: x\ry\r\n\r\n",
          "GET /\t HTTP/1.1\r\n\r\n"}) {
        CAPTURE(bad);
        CHECK_FALSE(parse_head(bad).ok());
    }
    CHECK_FALSE(parse_head(std::string("GET / HTTP/1.1\r\nA: x\0y\r\n\r\n", 27)).ok());
    const std::string longest =
        "GET /" + std::string(kMaxTargetBytes - 1, 'a') + " HTTP/1.1\r\n\r\n";
    CHECK(parse_head(longest).ok());
    CHECK(parse_head("GET /a" + longest.substr(5)).error().code == shared::ErrorCode::too_large);
    std::string many = "GET / HTTP/1.1\r\n";
    for (std::size_t i = 0; i <= kMaxHeaders; ++i) many += "A: b\r\n";
    CHECK(parse_head(many + "\r\n").error().code == shared::ErrorCode::too_large);
}

TEST_CASE("a body's length has one reading or none") {
    CHECK(body_framing(head_of(""))->any() == false);
    CHECK(body_framing(head_of("Content-Length: 12\r\n"))->length == 12);
    CHECK(body_framing(head_of("Transfer-Encoding: Chunked\r\n"))->chunked);
    for (const std::string bad :
         {"Content-Length: 1\r\nContent-Length: 1\r\n", "Content-Length: -1\r\n",
          "Content-Length: 1 \r\nTransfer-Encoding: chunked\r\n", "Content-Length: 0x1\r\n",
          "Content-Length: 99999999999999999999\r\n", "Content-Length:\r\n",
          "Transfer-Encoding: gzip, chunked\r\n"}) {
        CAPTURE(bad);
        CHECK_FALSE(body_framing(head_of(bad)).ok());
    }
}

TEST_CASE("queries and escapes") {
    const auto query = parse_query("a=1&b=x+y%2B&c&&d==");
    REQUIRE(query.ok());
    CHECK(query->find("b")->second == "x y+");
    CHECK(query->find("c")->second.empty());
    CHECK(query->find("d")->second == "=");
    for (const char* bad : {"a=%", "a=%4", "a=%zz", "a=%00"}) CHECK_FALSE(parse_query(bad).ok());
    CHECK(unescape("a+%41", false) == "a+A");
}

TEST_CASE("only loopback names, only loopback origins, only the token") {
    const std::string token = "Authorization: Bearer secret\r\n";
    struct Row {
        std::string headers;
        std::string verdict;
    };
    const std::vector<Row> rows{
        {"Host: 127.0.0.1\r\n", ""},
        {"Host: 127.0.0.1:40123\r\n", ""},
        {"Host: LOCALHOST:1\r\n", ""},
        {"Host: [::1]:80\r\n", ""},
        {"Host: [::1]\r\n", ""},
        {"", "forbidden"},
        {"Host: evil.example\r\n", "forbidden"},
        {"Host: evil.example:40123\r\n", "forbidden"},
        {"Host: 127.0.0.1.evil.example\r\n", "forbidden"},
        {"Host: 127.0.0.1@evil.example\r\n", "forbidden"},
        {"Host: 127.0.0.1:x\r\n", "forbidden"},
        {"Host: 127.0.0.1:\r\n", "forbidden"},
        {"Host: localhost.\r\n", "forbidden"},
        {"Host: \r\n", "forbidden"},
        {"Host: 127.0.0.1\r\nHost: 127.0.0.1\r\n", "forbidden"},
        {"Host: 127.0.0.1\r\nOrigin: null\r\n", "forbidden"},
        {"Host: 127.0.0.1\r\nOrigin: http://evil.example\r\n", "forbidden"},
        {"Host: 127.0.0.1\r\nOrigin: http://localhost.evil.example\r\n", "forbidden"},
        {"Host: 127.0.0.1\r\nOrigin: http://localhost\r\nOrigin: null\r\n", "forbidden"},
        {"Host: 127.0.0.1\r\nOrigin: http://localhost:3000\r\n", ""},
        {"Host: 127.0.0.1\r\nOrigin: http://[::1]:3000\r\n", ""},
    };
    for (const auto& row : rows) {
        CAPTURE(row.headers);
        CHECK(verdict(row.headers + token) == row.verdict);
        // Without the token, the same refusal; never another one for it.
        const auto without = row.verdict.empty() ? "unauthorized" : row.verdict;
        CHECK(verdict(row.headers) == without);
    }
    const std::string host = "Host: localhost\r\n";
    CHECK(verdict(host + "Authorization: bearer secret\r\n").empty());
    for (const std::string bad : {"Bearer secre", "Bearer secret2", "Bearer Secret", "secret",
                                  "Basic secret", "Bearer  secret", ""})
        CHECK(verdict(host + "Authorization: " + bad + "\r\n") == "unauthorized");
    CHECK(verdict(host + token + token) == "unauthorized");
    CHECK(refuse_access(head_of(host + "Authorization: Bearer \r\n"), ""));
}

TEST_CASE("routes are found by shape, literals first, segments unescaped one by one") {
    Router router;
    const auto add = [&](const char* method, const char* pattern) {
        router.add({method, pattern, [](const Request&) { return Response{}; }, {}});
    };
    add("GET", "/hosts/:host");
    add("POST", "/hosts/:host/warm");
    add("GET", "/hosts/all");
    add("DELETE", "/hosts/:name");
    add("GET", "/");
    const auto pattern = [&](const char* method, const char* path) {
        const auto found = router.find(method, path);
        return found.route ? found.route->pattern : "-" + found.allowed;
    };
    CHECK(pattern("GET", "/hosts/all") == "/hosts/all");
    CHECK(pattern("GET", "/hosts/a%2Fb") == "/hosts/:host");
    CHECK(router.find("GET", "/hosts/a%2Fb%20").parameters.at("host") == "a/b ");
    CHECK(router.find("DELETE", "/hosts/x").parameters.at("name") == "x");
    CHECK(pattern("PUT", "/hosts/x") == "-DELETE, GET");
    CHECK(pattern("GET", "/") == "/");
    for (const char* unknown : {"/hosts", "/hosts/", "/hosts/x/", "/hosts/x/y", "//hosts/x",
                                "/hosts/%zz", "/hosts/%00", "/Hosts/x"})
        CHECK(pattern("GET", unknown) == "-");
}

TEST_CASE("an event's text cannot be made to hold another field") {
    CHECK(event_text({.id = "7", .name = "output", .data = "{}"}) ==
          "id: 7\nevent: output\ndata: {}\n\n");
    CHECK(event_text({.id = {}, .name = {}, .data = "a\nb\r\nc\rd\n"}) ==
          "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
    CHECK(event_text({.id = "1\ndata: x", .name = std::string("n\r\0", 3), .data = ""}) ==
          "id: 1data: x\nevent: n\ndata: \n\n");
}
