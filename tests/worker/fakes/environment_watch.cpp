// Preloaded into a program, it writes to standard error when the program changes its environment while other threads,
// which may read it, run.
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>

#include <cstdio>

namespace {

int count_threads() {
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return 0;
  int count = 0;
  while (const dirent* entry = readdir(tasks)) count += entry->d_name[0] != '.' ? 1 : 0;
  closedir(tasks);
  return count;
}

void look(const char* name) {
  if (count_threads() > 1) dprintf(2, "the environment is changed beside other threads: %s\n", name);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int setenv(const char* name, const char* value, int overwrite) {
  look(name);
  using SetEnv = int (*)(const char*, const char*, int);
  return reinterpret_cast<SetEnv>(dlsym(RTLD_NEXT, "setenv"))(name, value, overwrite);
}

__attribute__((visibility("default"))) int unsetenv(const char* name) {
  look(name);
  using UnsetEnv = int (*)(const char*);
  return reinterpret_cast<UnsetEnv>(dlsym(RTLD_NEXT, "unsetenv"))(name);
}
}
