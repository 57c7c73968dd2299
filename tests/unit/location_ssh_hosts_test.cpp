#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "api/workspaces/ssh_hosts.h"

namespace fs = std::filesystem;
using workspaces::list_ssh_hosts;
using workspaces::parse_ssh_config;

namespace {

/// A home of its own, removed at the end.
class Home {
  public:
    Home() {
        std::string pattern = fs::temp_directory_path() / "albedo-ssh-hosts-XXXXXX";
        REQUIRE(::mkdtemp(pattern.data()));
        path = pattern;
        fs::create_directories(path / ".ssh");
    }
    ~Home() { fs::remove_all(path); }
    void write(const std::string& name, const std::string& text) const {
        fs::create_directories((path / ".ssh" / name).parent_path());
        std::ofstream(path / ".ssh" / name, std::ios::binary) << text;
    }
    fs::path path;
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("lines are read as ssh reads them") {
    const auto parsed = parse_ssh_config(
        "\xef\xbb\xbfhOsT=alpha\r\n# comment\n\n\tHOST beta \t\n hostname = \"127.0.0.2\" # c\n"
        "Host \"be ta\" gamma\nIdentityFile \"~/my keys/id\"\nHost \"open\nHost = d=e\n"
        "Host 'q' \"a\\\"b\"\nHost\n=delta\n\"\" epsilon\n");
    const std::vector<std::pair<std::string, Names>> expected{
        {"host", {"alpha"}},
        {"host", {"beta"}},
        {"hostname", {"127.0.0.2"}},
        {"host", {"be ta", "gamma"}},
        {"identityfile", {"~/my keys/id"}},
        {"host", {"d=e"}},
        {"host", {"q", "a\"b"}},
    };
    REQUIRE(parsed.lines.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        CHECK(parsed.lines[i].keyword == expected[i].first);
        CHECK(parsed.lines[i].arguments == expected[i].second);
    }
    CHECK(parsed.lines[1].number == 4);
    REQUIRE(parsed.problems.size() == 4);
    CHECK(parsed.problems[0].line == 8);
    CHECK(parsed.problems[1].line == 11);
    CHECK(parsed.problems[2].line == 12);
    CHECK(parsed.problems[3].line == 13);
    CHECK(parse_ssh_config("").lines.empty());
    CHECK(parse_ssh_config("Host a").lines.size() == 1);
}

TEST_CASE("names are listed once, in file order, without patterns and what ssh cannot be given") {
    Home home;
    home.write("config",
               "Host one two one\nHost *.example !three *\nHost \"be ta\" gamma\nHost -bad a;b\n"
               "Host me?\nHost ten.example fd00::1\n");
    CHECK(list_ssh_hosts(home.path).hosts ==
          Names{"one", "two", "gamma", "ten.example", "fd00::1"});
}

TEST_CASE("includes: globs, nesting, blocks, loops and files that cannot be read") {
    Home home;
    home.write("config",
               "Include conf.d/* more/a* more/b*\n"
               "Host first\n"
               "Host *\n  Include starred\n"
               "Host other\n  Include under-other\n"
               "Match all\n Include matched\n"
               "Match host x exec \"true\"\n Include maybe\n"
               "Host last\n"
               "Include ~/.ssh/tilde nowhere/* config fifo missing\n"
               "Host end\n Include loop\n");
    home.write("conf.d/1", "Include conf.d/nested/deep\nHost c1\n");
    home.write("conf.d/2", "Host c2\n");
    home.write("conf.d/nested/deep", "Host deep\n");
    home.write("more/b", "Host b\n");
    home.write("more/a", "Host a\n");
    home.write("starred", "Host starred\n");
    home.write("under-other", "Host hidden other o*\n");
    home.write("matched", "Host matched\n");
    home.write("maybe", "Host maybe\n");
    home.write("tilde", "Host last tilde\n");
    home.write("loop", "Host end\nInclude loop\n");
    REQUIRE(::mkfifo((home.path / ".ssh/fifo").c_str(), 0600) == 0);
    const auto list = list_ssh_hosts(home.path);
    CHECK(list.hosts == Names{"deep", "c1", "c2", "a", "b", "first", "starred", "other", "matched",
                              "last", "end"});
    Names files;
    for (const auto& problem : list.problems)
        files.push_back(fs::path(problem.file).filename().string() + ": " + problem.what);
    CHECK(files == Names{"nested: is not a regular file", "config: includes itself",
                         "fifo: is not a regular file", "loop: includes itself"});
}

TEST_CASE("no config, a broken one, a folder in its place") {
    Home home;
    CHECK(list_ssh_hosts(home.path).hosts.empty());
    CHECK(list_ssh_hosts(home.path).problems.empty());
    home.write("config", std::string(2 << 20, 'x'));
    CHECK(list_ssh_hosts(home.path).problems.size() == 1);
    fs::remove(home.path / ".ssh/config");
    fs::create_directory(home.path / ".ssh/config");
    CHECK(list_ssh_hosts(home.path).problems.size() == 1);
    CHECK(list_ssh_hosts(home.path / "nowhere").hosts.empty());
}
