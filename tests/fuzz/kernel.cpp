// JSON frames of a kernel, and the sentences made of them for the model.
#include <string>
#include <string_view>

#include "api/sessions/kernel_json.h"
#include "api/sessions/wakes.h"
#include "shared/ids.h"
#include "shared/result.h"
#include "tests/fuzz/targets.h"

void fuzz::kernel(std::string_view bytes) {
    const auto frame = sessions::parse_kernel_json(bytes);
    if (!frame) return;
    ALBEDO_CHECK(frame->is_object());
    const auto again = sessions::parse_kernel_json(sessions::dump(*frame));
    ALBEDO_CHECK(again.ok() && *again == *frame);
    for (const auto& [name, value] : frame->items()) {
        (void)sessions::text_of(*frame, name.c_str());
        (void)sessions::number_of(*frame, name.c_str());
        (void)sessions::flag_of(*frame, name.c_str());
        (void)shared::CellId::parse(sessions::text_of(value, "cell"));
        (void)sessions::number_of(value, "seq");
    }
    ALBEDO_CHECK(!sessions::wake_key("run", *frame).empty());
    ALBEDO_CHECK(sessions::wake_line(*frame).size() < 16 * 1024);
}
