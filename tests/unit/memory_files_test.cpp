#include "api/memory/memory_files.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "shared/ids.h"

using namespace memory;

namespace {

struct Folder {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("memory-" + shared::random_hex(6));
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }

    void put(const std::string& file, const std::string& content) const {
        std::filesystem::create_directories((path / file).parent_path());
        std::ofstream(path / file, std::ios::trunc) << content;
    }
};

const std::string kFile = MemoryFiles::memory_file("slug");

}  // namespace

TEST_CASE("an append is the text and a newline, on a line of its own") {
    Folder folder;
    MemoryFiles files(folder.path);
    CHECK(files.read(kFile).value().empty());
    REQUIRE(files.apply(files.plan(kFile, "one").value()).ok());
    CHECK(files.read(kFile).value() == "one\n");
    folder.put(kFile, "no line end");
    REQUIRE(files.apply(files.plan(kFile, "two").value()).ok());
    CHECK(files.read(kFile).value() == "no line end\ntwo\n");
}

TEST_CASE("a planned append is applied once wherever a crash cut it") {
    const std::string before = "before\n";
    for (std::size_t written = 0; written <= 5; ++written) {
        CAPTURE(written);
        Folder folder;
        MemoryFiles files(folder.path);
        folder.put(kFile, before);
        const AppendPlan plan = files.plan(kFile, "text").value();
        folder.put(kFile, before + plan.bytes.substr(0, written));
        REQUIRE(files.apply(plan).ok());
        REQUIRE(files.apply(plan).ok());
        CHECK(files.read(kFile).value() == "before\ntext\n");
    }
}

TEST_CASE("an append that others wrote around is found or added, never doubled") {
    Folder folder;
    MemoryFiles files(folder.path);
    folder.put(kFile, "before\n");
    const AppendPlan plan = files.plan(kFile, "text").value();
    folder.put(kFile, "before\nother\ntext\nmore\n");
    REQUIRE(files.apply(plan).ok());
    CHECK(files.read(kFile).value() == "before\nother\ntext\nmore\n");
    folder.put(kFile, "before\nother\n");
    REQUIRE(files.apply(plan).ok());
    CHECK(files.read(kFile).value() == "before\nother\ntext\n");
}

TEST_CASE("a save replaces the whole file and leaves no other") {
    Folder folder;
    MemoryFiles files(folder.path);
    REQUIRE(files.save(kFile, "first").ok());
    REQUIRE(files.save(kFile, "second").ok());
    CHECK(files.read(kFile).value() == "second");
    std::size_t names = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path / "slug")) {
        names += entry.exists() ? 1 : 0;
    }
    CHECK(names == 1);
}

TEST_CASE("what cannot be is an error that names the file and leaves what was there") {
    Folder folder;
    MemoryFiles files(folder.path);
    REQUIRE(files.save(kFile, "kept").ok());
    const std::string large(kMaxMemoryBytes + 1, 'x');
    CHECK(files.save(kFile, large).error().code == shared::ErrorCode::too_large);
    CHECK(files.plan(kFile, large).error().code == shared::ErrorCode::too_large);
    CHECK(files.read(kFile).value() == "kept");
    std::filesystem::create_directories(folder.path / MemoryFiles::memory_file("taken"));
    CHECK(files.read(MemoryFiles::memory_file("taken")).error().code == shared::ErrorCode::storage);
    std::filesystem::create_symlink("/etc/passwd", folder.path / "slug" / "link.md");
    CHECK(files.read("slug/link.md").error().code == shared::ErrorCode::storage);
}
