#pragma once

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace trainyard::fakes {

/// This process's memory that the kernel has given pages to, in bytes.
inline std::int64_t resident_bytes() {
  std::ifstream file{"/proc/self/statm"};
  std::int64_t pages = 0, resident_pages = 0;
  file >> pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

}  // namespace trainyard::fakes
