#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace trainyard::fakes {

/// Sets a variable of this process's environment until the destructor, which puts the former value back. While no other
/// thread reads the environment.
class SetVariable {
 public:
  SetVariable(const char* name, const std::string& value) : name_{name} {
    if (const char* former = std::getenv(name); former != nullptr) former_ = former;
    ::setenv(name, value.c_str(), 1);
  }
  SetVariable(const SetVariable&) = delete;
  SetVariable& operator=(const SetVariable&) = delete;
  ~SetVariable() {
    if (former_) {
      ::setenv(name_, former_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> former_;
};

}  // namespace trainyard::fakes
