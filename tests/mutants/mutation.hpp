// Included at the head of each source that scripts/mutate changes. Environment:
//   MUTATION_ACTIVE   the number of the one mutant that is switched on; none when unset
//   MUTATION_REACHED  a file with a byte for each mutant, which is set where the mutant would have made a difference
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <type_traits>

// A changed line may compare what is always true, or leave a name unused. These are no reason to refuse it.
#pragma GCC diagnostic ignored "-Wbool-compare"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wdangling-else"
#pragma GCC diagnostic ignored "-Wfloat-conversion"
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wreturn-type"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wunused-but-set-parameter"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wunused-variable"

namespace mutation {

inline unsigned const active = [] {
  char const* const number = std::getenv("MUTATION_ACTIVE");
  return number == nullptr ? 0U : static_cast<unsigned>(std::atoi(number));
}();

struct Reached {
  unsigned char* bytes = nullptr;
  std::size_t size = 0;
};

inline Reached const reached = []() -> Reached {
  char const* const path = std::getenv("MUTATION_REACHED");
  if (path == nullptr) return {};
  int const file = open(path, O_RDWR | O_CLOEXEC);
  struct stat about {};
  if (file < 0 || fstat(file, &about) != 0) return {};
  void* const bytes =
      mmap(nullptr, static_cast<std::size_t>(about.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (bytes == MAP_FAILED) return {};
  return {static_cast<unsigned char*>(bytes), static_cast<std::size_t>(about.st_size)};
}();

/// Whether mutant `number` is switched on, where it makes a difference.
inline bool on(unsigned number) {
  if (number < reached.size) reached.bytes[number] = 1;
  return active == number;
}

/// `value`; with the mutant, always `forced`.
inline bool forced(unsigned number, bool value, bool forced) {
  return value != forced && on(number) ? forced : value;
}

/// `value`; with the mutant `number` always true, with the one after it always false.
inline bool condition(unsigned number, bool value) {
  return forced(number + 1, forced(number, value, true), false);
}

/// `value`; with the mutant, one more (a whole number), or twice as much.
template <typename T>
T more(unsigned number, T value) {
  if (!on(number)) return value;
  return std::is_integral_v<T> ? static_cast<T>(value + 1) : static_cast<T>(value + value);
}

}  // namespace mutation
