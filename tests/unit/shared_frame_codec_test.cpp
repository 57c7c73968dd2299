// The frames in tests/data/frames are made by make.py there; both languages read and write them.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "shared/frame_codec.h"

using shared::Frame;
using shared::FrameDecoder;

namespace {

const std::filesystem::path kFolder = ALBEDO_TEST_DATA "/frames";

std::string content(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
}

std::string unhex(const std::string& hex) {
    std::string bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
        bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    return bytes;
}

struct Golden {
    std::string name;
    std::string bytes;
    Frame frame;
};

std::vector<Golden> golden_frames() {
    std::vector<Golden> frames;
    for (const auto& row : nlohmann::json::parse(content(kFolder / "manifest.json"))) {
        Frame frame{row.at("kernel"), row.at("kind"), row.at("seq"), row.at("ack"),
                    unhex(row.at("payload_hex"))};
        const std::string file = row.at("file");
        frames.push_back({file, content(kFolder / file), std::move(frame)});
    }
    return frames;
}

Frame only(FrameDecoder& decoder) {
    auto next = decoder.next();
    REQUIRE(next);
    REQUIRE(*next);
    return std::move(**next);
}

bool nothing(FrameDecoder& decoder) {
    auto next = decoder.next();
    REQUIRE(next);
    return !*next;
}

}  // namespace

TEST_CASE("golden frames are written and read alike") {
    const auto frames = golden_frames();
    REQUIRE(frames.size() >= 10);
    for (const Golden& golden : frames) {
        INFO(golden.name);
        CHECK(shared::encode_frame(golden.frame) == golden.bytes);
        FrameDecoder decoder;
        decoder.feed(golden.bytes);
        CHECK(only(decoder) == golden.frame);
        CHECK(nothing(decoder));
    }
}

TEST_CASE("a stream of golden frames reads the same in pieces of any size") {
    std::string stream;
    std::vector<Frame> wanted;
    for (const Golden& golden : golden_frames()) {
        stream += golden.bytes;
        wanted.push_back(golden.frame);
    }
    for (const std::size_t piece : {1, 2, 7, 24, 25, 26, 64, 100'000}) {
        INFO("pieces of " << piece);
        FrameDecoder decoder;
        std::vector<Frame> found;
        for (std::size_t at = 0; at < stream.size(); at += piece) {
            decoder.feed(std::string_view(stream).substr(at, piece));
            for (;;) {
                auto next = decoder.next();
                REQUIRE(next);
                if (!*next) break;
                found.push_back(std::move(**next));
            }
        }
        CHECK(found == wanted);
    }
}

TEST_CASE("a length over the limit is refused before its payload came") {
    std::string head = shared::encode_frame({1, 2, 3, 4, ""});
    head[0] = 0;
    head[1] = static_cast<char>(0x80);  // 8 MiB and 1 byte
    head[3] = 1;
    FrameDecoder decoder;
    decoder.feed(head);
    const auto next = decoder.next();
    REQUIRE_FALSE(next);
    CHECK(next.error().code == shared::ErrorCode::protocol);
}

TEST_CASE("the largest frame goes through") {
    const Frame frame{7, 2, 0, 9, std::string(shared::kMaxFramePayloadBytes, 'x')};
    const std::string bytes = shared::encode_frame(frame);
    FrameDecoder decoder;
    for (std::size_t at = 0; at < bytes.size(); at += 65'536) {
        decoder.feed(std::string_view(bytes).substr(at, 65'536));
    }
    CHECK(only(decoder) == frame);
}

TEST_CASE("random bytes are frames, a wait for more, or an error") {
    std::mt19937 random(20261201);
    for (int round = 0; round < 2000; ++round) {
        std::string bytes(random() % 200, '\0');
        for (char& each : bytes) each = static_cast<char>(random() % 4 == 0 ? random() : 0);
        FrameDecoder decoder;
        decoder.feed(bytes);
        std::size_t taken = 0;
        for (;;) {
            auto next = decoder.next();
            if (!next || !*next) break;
            taken += shared::kFrameHeaderBytes + (**next).payload.size();
        }
        REQUIRE(taken <= bytes.size());
    }
}
