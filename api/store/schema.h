// The tables of every version, in the order in which versions came. Only ever appended to.
#pragma once

#include <string>
#include <vector>

namespace store {

std::vector<std::string> schema();

}  // namespace store
