#pragma once

#include <string>
#include <vector>

namespace trainyard {

/// Pointers to `texts` and a null pointer, as execve(2) takes them. Valid for as long as `texts` is.
[[nodiscard]] inline std::vector<char*> exec_pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace trainyard
