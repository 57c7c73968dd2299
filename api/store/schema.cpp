#include "api/store/schema.h"

#include "api/store/cells_table.h"
#include "api/store/hosts_table.h"
#include "api/store/inputs_table.h"
#include "api/store/kernel_calls_table.h"
#include "api/store/kernels_table.h"
#include "api/store/links_table.h"
#include "api/store/memory_table.h"
#include "api/store/mirrors_table.h"
#include "api/store/operations_table.h"
#include "api/store/sessions_table.h"
#include "api/store/transcript_table.h"
#include "api/store/wakes_table.h"

namespace store {

std::vector<std::string> schema() {
    return {
        sessions_schema() + cells_schema() + kernels_schema() + kernel_calls_schema() +
            hosts_schema() + operations_schema() + links_schema() + memory_schema() +
            mirrors_schema(),
        inputs_schema() + transcript_schema(),
        wakes_schema(),
    };
}

}  // namespace store
