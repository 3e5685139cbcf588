#pragma once

#include <string>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/access_token.hpp"
#include "storage/environment.hpp"
#include "storage/http_client.hpp"

namespace trainyard::storage {

/// Asked only where azure_settings() finds neither an account's key nor a SAS token.
/// A token of Microsoft Entra ID for Azure Storage, for the first of these identities that is set up, in the order of
/// Azure's own clients: a client's secret (AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET); workload identity
/// (AZURE_FEDERATED_TOKEN_FILE instead of the secret); the az tool's login; a managed identity (IDENTITY_ENDPOINT and
/// IDENTITY_HEADER, else the instance's metadata), the one of AZURE_CLIENT_ID where there are several. Each call reads
/// the files again. Errors are those that AccessTokens::get() needs: a transient one when the server is slow, throttles
/// or cannot be reached; otherwise unauthorized, which names the missing variable or says what was refused.
/// Source: https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow
[[nodiscard]] Result<AccessToken> fetch_azure_token(HttpClient& http, const Environment& environment, Time now);

}  // namespace trainyard::storage
