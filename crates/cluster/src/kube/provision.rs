//! Creates Trueup's two service accounts from an administrator's credential.

use std::path::Path;

use http::Request;
use kube::config::{AuthInfo, Kubeconfig};
use serde_json::{Value, json};
use trueup_rules::render::names::{SYSTEM_NAMESPACE, WATCHER, WRITER};

use super::{ConnectError, Kube, client_of, rbac};

/// Lifetime of a token; a new one is requested at each start.
const TOKEN_S: u32 = 365 * 24 * 3600;

impl Kube {
    /// Creates Trueup's service accounts with an administrator's kubeconfig, and connects with
    /// them. The administrator's credential is not kept.
    ///
    /// # Errors
    /// The kubeconfig is invalid, or has no permission to create the accounts.
    pub async fn provision(path: &Path) -> Result<Self, ConnectError> {
        let kubeconfig = Kubeconfig::read_from(path)?;
        let admin = client_of(kubeconfig.clone())?;
        for object in rbac::objects() {
            let at = format!("{}?fieldManager=trueup-setup&force=true", rbac::path(&object));
            let request = Request::patch(at)
                .header("content-type", "application/apply-patch+yaml")
                .body(object.to_string().into_bytes())
                .map_err(kube::Error::HttpError)?;
            admin.request::<Value>(request).await?;
        }
        let watcher = as_account(&admin, kubeconfig.clone(), WATCHER).await?;
        let writer = as_account(&admin, kubeconfig, WRITER).await?;
        Ok(Self::split(watcher, writer))
    }
}

/// A client with a token of this service account.
async fn as_account(
    admin: &kube::Client,
    mut kubeconfig: Kubeconfig,
    name: &str,
) -> Result<kube::Client, ConnectError> {
    let token_request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": { "expirationSeconds": TOKEN_S },
    });
    let path = format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts/{name}/token");
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(token_request.to_string().into_bytes())
        .map_err(kube::Error::HttpError)?;
    let answer: Value = admin.request(request).await?;
    let token = json!({ "token": answer["status"]["token"] });
    let auth: AuthInfo = serde_json::from_value(token).map_err(|_| ConnectError::NoToken)?;
    for known in &mut kubeconfig.auth_infos {
        known.auth_info = Some(auth.clone());
    }
    client_of(kubeconfig)
}
