#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "operator/kube/config_sources.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/operator/kube/plugin_program.hpp"

namespace trainyard::kube {
namespace {

constexpr const char* base = R"(
apiVersion: v1
kind: Config
current-context: main
contexts:
- {{name: other, context: {{cluster: nowhere, user: nobody}}}}
- {{name: without user, context: {{cluster: c, user: c}}}}
- {{name: second, context: {{cluster: c, user: u, namespace: another}}}}
- {{name: main, context: {{cluster: c, user: u, namespace: team}}}}
clusters:
- name: c
  cluster: {{server: "https://10.0.0.1:6443", {}}}
users:
- name: u
  user: {{{}}}
)";

Result<ClientConfig> load(const fakes::TemporaryFolder& folder, const std::string& cluster, const std::string& user,
                          std::string_view context = {}) {
  return load_kubeconfig(folder.write("config", fmt::format(base, cluster, user)), context);
}

TEST(LoadKubeconfig, ReadsInlineDataAndTheNamespace) {
  const fakes::TemporaryFolder folder;
  const auto config = load(
      folder, "certificate-authority-data: Y2E=", "client-certificate-data: Y2VydA==, client-key-data: a2V5, token: t");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->host, "10.0.0.1");
  EXPECT_EQ(config->port, 6443);
  EXPECT_EQ(config->authorities.pem(), "ca");
  EXPECT_EQ(config->certificate_pem, "cert");
  EXPECT_EQ(config->key_pem, "key");
  EXPECT_EQ(config->token.token(), "t");
  EXPECT_EQ(config->name_space, "team");
}

TEST(LoadKubeconfig, AContextWithoutANamespaceMeansDefaultAsToKubectl) {
  const fakes::TemporaryFolder folder;
  for (const char* name_space : {"", ", namespace: ''", ", namespace: ~"}) {
    std::string text = fmt::format(base, "x: y", "token: t");
    text.replace(text.find(", namespace: team"), std::string{", namespace: team"}.size(), name_space);
    const auto config = load_kubeconfig(folder.write("config", text));
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->name_space, "default") << name_space;
  }
}

TEST(LoadKubeconfig, ReadsFilesBesideIt) {
  const fakes::TemporaryFolder folder;
  folder.write("ca.crt", "ca");
  folder.write("tls.crt", "cert");
  folder.write("tls.key", "key");
  folder.write("token", "from file");
  const auto config = load(folder, "certificate-authority: ca.crt",
                           "client-certificate: tls.crt, client-key: tls.key, tokenFile: token, token: text");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->authorities.pem(), "ca");
  EXPECT_EQ(config->certificate_pem, "cert");
  EXPECT_EQ(config->key_pem, "key");
  EXPECT_EQ(config->token.token(), "from file") << "the file, which may be renewed, goes before the text";
}

TEST(LoadKubeconfig, PrefersInlineCertificatesToFilesAsKubectlDoes) {
  const fakes::TemporaryFolder folder;
  folder.write("ca.crt", "ca of the file");
  folder.write("tls.crt", "cert of the file");
  const auto config = load(folder, "certificate-authority: ca.crt, certificate-authority-data: Y2E=",
                           "client-certificate: tls.crt, client-certificate-data: Y2VydA==, client-key-data: a2V5");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->authorities.pem(), "ca");
  EXPECT_EQ(config->certificate_pem, "cert");
}

TEST(LoadKubeconfig, NamesASettingThatIsNotSupported) {
  const fakes::TemporaryFolder folder;
  struct Row {
    const char* cluster;
    const char* user;
    const char* sentence;
  };
  for (const Row& row :
       {Row{"insecure-skip-tls-verify: true", "token: t", "the server's certificate is always verified"},
        Row{"tls-server-name: x", "token: t", "tls-server-name is not supported"},
        Row{"proxy-url: x", "token: t", "proxy-url is not supported"},
        Row{"x: y", "exec: aws", "the user's exec: must be an object"},
        Row{"x: y", "exec: {command: aws}", "the user's exec.apiVersion: must be given"},
        Row{"x: y", "exec: {command: aws, command: gke}", "command is given twice"},
        Row{"x: y", "auth-provider: {name: gcp}, exec: {command: aws}", "auth-provider is not supported"},
        Row{"x: y", "username: a, password: b", "username is not supported"},
        Row{"x: y", "password: b", "password is not supported"},
        Row{"x: y", "as: root, token: t", "as is not supported"},
        Row{"x: y", "as-uid: 1, token: t", "as-uid is not supported"},
        Row{"x: y", "as-groups: [admins], token: t", "as-groups is not supported"},
        Row{"x: y", "client-certificate-data: Y2E=", "are given only together"},
        Row{"x: y", "client-key-data: Y2E=", "are given only together"},
        Row{"x: y", "client-certificate: none.crt", "client-certificate from"},
        Row{"certificate-authority-data: '?'", "token: t", "certificate-authority-data: it is not base64"},
        Row{"certificate-authority: none.crt", "token: t", "none.crt: No such file"}}) {
    const auto config = load(folder, row.cluster, row.user);
    ASSERT_FALSE(config) << row.cluster << " " << row.user;
    EXPECT_NE(config.error().message.find(row.sentence), std::string::npos) << config.error().message;
    EXPECT_NE(config.error().message.find("the kubeconfig " + folder.path()), std::string::npos)
        << config.error().message;
  }
  EXPECT_TRUE(load(folder, "insecure-skip-tls-verify: false", "token: t"));
}

constexpr const char* exec_v1beta1 = "apiVersion: client.authentication.k8s.io/v1beta1, interactiveMode: Never";

TEST(LoadKubeconfig, RunsThePluginBesideIt) {
  const PluginProgram program{
      R"(echo "$1" > argument; echo "$KUBERNETES_EXEC_INFO" > info; token "$T-$n" | sed 's|/v1"|/v1beta1"|')"};
  const auto config = load(program.folder(),
                           "certificate-authority-data: Y2E=, extensions: [{name: other, extension: {a: 1}}, "
                           "{name: client.authentication.k8s.io/exec, extension: {audience: '5', count: 5}}]",
                           fmt::format("exec: {{{}, command: ./plugin, args: ['5'], env: [{{name: T, value: given}}], "
                                       "provideClusterInfo: true}}",
                                       exec_v1beta1));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->token.token(), "given-1") << "the first run's result is used";
  EXPECT_EQ(config->certificate_pem, "");
  EXPECT_EQ(program.text("argument"), "5\n");
  EXPECT_EQ(nlohmann::json::parse(program.text("info")),
            nlohmann::json::parse(
                R"({"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential",
                    "spec": {"interactive": false,
                             "cluster": {"server": "https://10.0.0.1:6443", "certificate-authority-data": "Y2E=",
                                         "config": {"audience": "5", "count": 5}}}})"));
}

constexpr const char* exec_v1 =
    "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, "
    "command: ./plugin}";

TEST(LoadKubeconfig, TakesAPluginsCertificateOnce) {
  const PluginProgram program{R"(give '"clientCertificateData": "cert\nchain", "clientKeyData": "key"')"};
  const auto config = load(program.folder(), "", exec_v1);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->certificate_pem, "cert\nchain");
  EXPECT_EQ(config->key_pem, "key");
  EXPECT_EQ(config->token.token(), "");
  EXPECT_EQ(program.run_count(), 1);
}

TEST(LoadKubeconfig, PrefersTheUsersOwnCredentialsToAPlugin) {
  const PluginProgram program{R"(give '"token": "t", "clientCertificateData": "cert", "clientKeyData": "key"')"};
  const std::string exec = std::string{", "} + exec_v1;
  program.folder().write("token", "from file");
  EXPECT_EQ(load(program.folder(), "", "token: own" + exec)->token.token(), "own");
  EXPECT_EQ(load(program.folder(), "", "tokenFile: token" + exec)->token.token(), "from file");
  EXPECT_EQ(program.run_count(), 0);
  const auto config = load(program.folder(), "", "client-certificate-data: Y2VydDI=, client-key-data: a2V5Mg==" + exec);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->certificate_pem, "cert2");
  EXPECT_EQ(config->key_pem, "key2");
  EXPECT_EQ(config->token.token(), "t");
}

TEST(LoadKubeconfig, IgnoresAnExecThatIsNull) {
  const fakes::TemporaryFolder folder;
  EXPECT_EQ(load(folder, "", "exec: null")->token.token(), "");
}

TEST(LoadKubeconfig, SaysWhyThePluginGaveNothing) {
  const PluginProgram program{"echo 'log in first' >&2; exit 1"};
  const auto config = load(program.folder(), "", exec_v1);
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().kind, ErrorKind::unauthorized);
  EXPECT_NE(config.error().message.find("the kubeconfig " + program.folder().path()), std::string::npos)
      << config.error().message;
  EXPECT_NE(config.error().message.find("plugin\": it ended with exit code 1: log in first;"), std::string::npos)
      << config.error().message;
}

TEST(LoadKubeconfig, NamesAPluginSettingThatIsNoJson) {
  const PluginProgram program{"token t"};
  const auto config = load(program.folder(),
                           "extensions: [{name: client.authentication.k8s.io/exec, extension: {a: 1, a: 2}}]", exec_v1);
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().kind, ErrorKind::invalid);
  EXPECT_NE(config.error().message.find("the cluster's extensions: YAML, line"), std::string::npos)
      << config.error().message;
}

TEST(LoadKubeconfig, NamesTheEntryThatIsMissing) {
  const fakes::TemporaryFolder folder;
  EXPECT_NE(load(folder, "", "token: t", "absent").error().message.find("no context named \"absent\""),
            std::string::npos);
  EXPECT_NE(load(folder, "", "token: t", "other").error().message.find("no cluster named \"nowhere\""),
            std::string::npos);
  const auto without_user = load(folder, "", "token: t", "without user");
  ASSERT_FALSE(without_user);
  EXPECT_NE(without_user.error().message.find("no user named \"c\""), std::string::npos);
}

TEST(LoadKubeconfig, PrefersTheContextThatIsAskedForToTheCurrentOne) {
  const fakes::TemporaryFolder folder;
  const auto config = load(folder, "", "token: t", "second");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->name_space, "another");
}

TEST(LoadKubeconfig, TellsThePluginTheAuthoritiesOfAFileToo) {
  const PluginProgram program{R"(echo "$KUBERNETES_EXEC_INFO" > info; token t)"};
  program.folder().write("ca.crt", "ca");
  const auto config =
      load(program.folder(), "certificate-authority: ca.crt",
           "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: ./plugin, "
           "provideClusterInfo: true}");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(nlohmann::json::parse(program.text("info"))["spec"]["cluster"],
            nlohmann::json::parse(R"({"server": "https://10.0.0.1:6443", "certificate-authority-data": "Y2E="})"));
}

TEST(LoadKubeconfig, RefusesAFileThatIsNone) {
  const fakes::TemporaryFolder folder;
  EXPECT_EQ(load_kubeconfig(folder.file("none")).error().kind, ErrorKind::io);
  for (const char* text : {"", "[]", "a: [", "current-context: 3"}) {
    const auto config = load_kubeconfig(folder.write("config", text));
    ASSERT_FALSE(config) << text;
    EXPECT_EQ(config.error().kind, ErrorKind::invalid) << text;
  }
}

TEST(LoadServiceAccount, ReadsTheMountOfAPod) {
  const fakes::TemporaryFolder folder;
  folder.write("ca.crt", "ca");
  folder.write("token", "t");
  folder.write("namespace", "trainyard-system");
  for (const auto& [host, port] : {std::pair{"10.96.0.1", "443"}, std::pair{"fd00::1", "6443"}}) {
    const auto config = load_service_account({.folder = folder.path(), .host = host, .port = port});
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->host, host);
    EXPECT_EQ(config->port, std::stoi(port));
    EXPECT_EQ(config->authorities.pem(), "ca");
    EXPECT_EQ(config->token.token(), "t");
    EXPECT_EQ(config->name_space, "trainyard-system");
  }
}

TEST(LoadServiceAccount, SaysThatThisIsNoPod) {
  for (const auto& [host, port] : {std::pair{"", ""}, {"10.96.0.1", ""}, {"", "443"}}) {
    const auto config = load_service_account({.folder = "/", .host = host, .port = port});
    ASSERT_FALSE(config);
    EXPECT_EQ(config.error().kind, ErrorKind::not_found) << host << " " << port;
  }
}

TEST(LoadServiceAccount, NamesTheFileThatTheMountLacks) {
  for (const char* missing : {"ca.crt", "token", "namespace"}) {
    const fakes::TemporaryFolder folder;
    for (const char* name : {"ca.crt", "token", "namespace"}) {
      if (std::string_view{name} != missing) folder.write(name, "x");
    }
    const auto config = load_service_account({.folder = folder.path(), .host = "10.96.0.1", .port = "443"});
    ASSERT_FALSE(config) << missing;
    EXPECT_NE(config.error().message.find(folder.file(missing).string()), std::string::npos) << config.error().message;
  }
}

}  // namespace
}  // namespace trainyard::kube
