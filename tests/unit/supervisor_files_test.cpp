// Black boxes, the command line and the listener of the supervisor.
#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "supervisor/black_box.h"
#include "supervisor/home.h"
#include "supervisor/options.h"
#include "supervisor/timing.h"

namespace fs = std::filesystem;
using supervisor::BlackBox;

namespace {

class TemporaryFolder {
  public:
    TemporaryFolder() {
        char name[] = "/tmp/albedo-test-XXXXXX";
        REQUIRE(mkdtemp(name) != nullptr);
        path_ = name;
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() { fs::remove_all(path_); }
    const fs::path& path() const { return path_; }

  private:
    fs::path path_;
};

BlackBox box_of(const std::string& host, std::int64_t wall_ms = 1'780'000'000'123) {
    return {.process = "agent",
            .host = host,
            .cause = "signal 9 (Killed)",
            .last_words = "bye",
            .events = {{wall_ms, "bridge opened"}},
            .wall_ms = wall_ms};
}

}  // namespace

TEST_CASE("a black box's name is a plain file name, whatever the host is called") {
    struct Row {
        std::string host, name;
    };
    const std::string when = "20260528T202640.123Z-agent";
    for (const auto& row :
         {Row{"", when + ".txt"}, Row{"user@box-1.example", when + "-user@box-1.example.txt"},
          Row{"../../etc/x", when + "-.._.._etc_x.txt"},
          Row{"a b\n\x1b[31m", when + "-a_b___31m.txt"},
          Row{std::string(500, 'h'), when + "-" + std::string(64, 'h') + ".txt"}}) {
        CHECK(black_box_name(box_of(row.host)) == row.name);
    }
}

TEST_CASE("a black box holds cause, words and events, and nothing that steers a terminal") {
    auto box = box_of("box");
    box.last_words = "one\x1b]0;title\x07\ntwo";
    const auto text = black_box_text(box);
    for (const char* part : {"signal 9 (Killed)", "one?]0;title?\ntwo\n", "bridge opened"}) {
        CHECK(text.find(part) != std::string::npos);
    }
    CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("the newest fifty black boxes are kept") {
    const TemporaryFolder folder;
    const auto boxes = folder.path() / "blackbox";
    for (int i = 0; i < 60; ++i) write_black_box(boxes, box_of("box", 1'780'000'000'000 + i));
    std::vector<fs::path> left(fs::directory_iterator(boxes), fs::directory_iterator{});
    CHECK(left.size() == supervisor::kMaxBlackBoxes);
    CHECK_FALSE(fs::exists(boxes / black_box_name(box_of("box", 1'780'000'000'009))));
    CHECK(fs::exists(boxes / black_box_name(box_of("box", 1'780'000'000'010))));
}

TEST_CASE("a black box that cannot be written is only missing") {
    const TemporaryFolder folder;
    std::ofstream(folder.path() / "blackbox") << "a file";
    write_black_box(folder.path() / "blackbox", box_of("box"));
    CHECK(fs::is_regular_file(folder.path() / "blackbox"));
}

TEST_CASE("command lines") {
    struct Row {
        std::vector<const char*> words;
        bool ok;
    };
    for (const auto& row : {Row{{}, true}, Row{{"--home", "/h", "--foreground"}, true},
                            Row{{"--ready-fd", "7", "--time-scale", "0.1"}, true},
                            Row{{"--home"}, false}, Row{{"--ready-fd", "7x"}, false},
                            Row{{"--ready-fd", "2"}, false}, Row{{"--time-scale", "nan"}, false},
                            Row{{"--time-scale", "0"}, false}, Row{{"--nonsense"}, false}}) {
        std::vector<const char*> argv{"albedo-supervisor"};
        argv.insert(argv.end(), row.words.begin(), row.words.end());
        CAPTURE(row.words);
        CHECK(supervisor::parse_options(static_cast<int>(argv.size()), argv.data()).ok() == row.ok);
    }
    const char* argv[] = {"albedo-supervisor", "--home", "here", "--ready-fd", "7"};
    const auto options = supervisor::parse_options(5, argv);
    REQUIRE(options.ok());
    CHECK(options->home == fs::current_path() / "here");
    CHECK(options->ready_fd == 7);
    CHECK_FALSE(options->foreground);
}

TEST_CASE("a listener keeps its port over close and open") {
    supervisor::Listener listener(0);
    REQUIRE(listener.open().ok());
    const auto port = listener.port();
    CHECK(port != 0);
    supervisor::Listener second(port);
    const auto refused = second.open();
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message.find(std::to_string(port)) != std::string::npos);
    listener.close();
    REQUIRE(listener.open().ok());
    CHECK(listener.port() == port);
}
