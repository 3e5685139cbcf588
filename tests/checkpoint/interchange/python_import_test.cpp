// Imports files that Python's torch and safetensors wrote.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/interchange/catalogue.hpp"
#include "checkpoint/interchange/export.hpp"
#include "checkpoint/interchange/import.hpp"
#include "storage/file_store.hpp"
#include "tests/checkpoint/interchange/python.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"

namespace trainyard::checkpoint {
namespace {

class PythonWrites : public testing::Test {
 protected:
  const fakes::TemporaryFolder folder;

  void SetUp() override {
    need_safetensors();
    if (!IsSkipped() && !HasFailure()) run_python("import_oracle.py", folder.path());
  }

  void run_python(const std::string& program, const std::string& arguments) {
    const std::string log = folder.file("log").string();
    const std::string command = fmt::format("{} {} {} > {} 2>&1", paths::torch_python(),
                                            paths::source("tests/checkpoint/interchange/" + program), arguments, log);
    ASSERT_EQ(std::system(command.c_str()), 0) << arguments << "\n" << fakes::text_of(log);
  }

  /// The arguments with which the other oracle compares what is exported of `file`, once it was imported, with what
  /// Python saved.
  std::string imported_and_exported(const std::string& file, const std::string& ending) {
    storage::FileStore store{folder.path() + "/prefix-" + file};
    const auto tensors = TensorFile::open(folder.file(file).string());
    EXPECT_TRUE(tensors) << tensors.error().message;
    const auto imported = import_tensors(store, tensors->tensors(), file, Time{});
    EXPECT_TRUE(imported) << imported.error().message;
    const auto catalogue = read_catalogue(store);
    const Manifest& manifest = *catalogue->newest()->manifest;
    const auto plan = plan_export(manifest, {});
    EXPECT_TRUE(plan) << plan.error().message;
    const std::string target = folder.file(file + ".back" + ending).string();
    auto exported = NewFile::create(target, false);
    DataStream data{store, manifest};
    const auto written =
        ending == ".pt" ? write_torch(data, *plan, *exported) : write_safetensors(data, manifest, *plan, *exported);
    EXPECT_TRUE(written) << written.error().message;
    EXPECT_TRUE(exported->commit());
    return fmt::format(" {} {}.json", target, folder.file(file).string());
  }

  void expect_refused_by_a_clear_word() {
    struct Row {
      std::string file;
      std::string says;
    };
    const Row rows[] = {
        {"a-module.pt", "it would have torch.nn.modules"},
        {"an-epoch.pt", "epoch is a number, and only dicts of tensors are read"},
        {"an-optimizer.pt", "param_groups is a list"},
        {"an-old.pt", "torch.save has written since torch 1.6"},
        {"a-sparse.pt", "it would have torch._utils._rebuild_sparse_tensor built"},
        {"a-conjugate.pt", "w is conjugated or negated only when it is read"},
        {"a-script.pt", "it is a TorchScript program"},
        {"some-words.pt", "it is no zip archive"},
    };
    for (const Row& row : rows) {
      const auto file = TensorFile::open(folder.file(row.file).string());
      ASSERT_FALSE(file) << row.file;
      EXPECT_THAT(file.error().message, testing::HasSubstr(row.says)) << row.file;
      EXPECT_THAT(file.error().message, testing::StartsWith(folder.file(row.file).string()));
    }
  }
};

// One test for all, since loading torch in Python takes the time.
TEST_F(PythonWrites, FilesThatAreReadBackBitByBitOrRefusedWithAReason) {
  std::string arguments;
  for (const std::string file : {"dtypes.pt", "protocol-2.pth", "protocol-3.pth", "protocol-4.pth", "protocol-5.pth",
                                 "deflated.pt", "views.bin", "module.pt", "parameters.pt", "nested.pt"})
    arguments += imported_and_exported(file, ".pt");
  arguments += imported_and_exported("dtypes.safetensors", ".safetensors");
  run_python("python_oracle.py", arguments);
  expect_refused_by_a_clear_word();
}

}  // namespace
}  // namespace trainyard::checkpoint
