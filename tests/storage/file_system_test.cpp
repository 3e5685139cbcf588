#include "storage/file_system.hpp"

#include <gtest/gtest.h>

#include <string_view>

#include "storage/file_store.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::storage {
namespace {

struct Kind {
  std::string_view name;
  std::uint32_t magic = 0;
  bool is_network = false;
};

// The numbers as `stat -f -c %t` prints them.
const Kind kinds[] = {
    {"ext4", 0xEF53, false},      {"xfs", 0x58465342, false},     {"btrfs", 0x9123683E, false},
    {"tmpfs", 0x01021994, false}, {"overlay", 0x794C7630, false}, {"zfs", 0x2FC12FC1, false},
    {"nfs", 0x6969, true},        {"cifs", 0xFF534D42, true},     {"smb2", 0xFE534D42, true},
    {"lustre", 0x0BD00BD0, true}, {"gpfs", 0x47504653, true},     {"ceph", 0x00C36400, true},
    {"fuse", 0x65735546, true},   {"beegfs", 0x19830326, true},   {"9p", 0x01021997, true},
    {"smb", 0x517B, true},        {"openafs", 0x5346414F, true},  {"afs", 0x6B414653, true},
    {"coda", 0x73757245, true},   {"ncp", 0x564C, true},          {"orangefs", 0x20030528, true},
    {"panfs", 0xAAD7AAEA, true},  {"wekafs", 0x18031977, true},   {"gfs2", 0x01161970, true},
    {"ocfs2", 0x7461636F, true},
};

TEST(IsNetworkFileSystem, KnowsThemByTheirNumbers) {
  for (const Kind& kind : kinds) EXPECT_EQ(is_network_file_system(kind.magic), kind.is_network) << kind.name;
}

TEST(FileSystemOf, IsThatOfTheNearestFolderThatExists) {
  const fakes::TemporaryFolder folder;
  EXPECT_TRUE(file_system_of(folder.path()));
  EXPECT_EQ(file_system_of(folder.path() + "/is/not/there"), file_system_of(folder.path()));
}

TEST(FileStore, IsNearUnlessItsFolderIsOnANetworkFileSystem) {
  for (const Kind& kind : kinds) {
    std::string asked;
    const FileStore store{"/checkpoints/run", [&](const std::string& path) {
                            asked = path;
                            return std::optional{kind.magic};
                          }};
    EXPECT_EQ(store.is_cached_on_node(), !kind.is_network) << kind.name;
    EXPECT_EQ(asked, "/checkpoints/run");
  }
  EXPECT_TRUE(FileStore("/checkpoints", [](const std::string&) { return std::nullopt; }).is_cached_on_node());
}

}  // namespace
}  // namespace trainyard::storage
