//! Client methods of services and their operations.

use reqwest::header::IF_MATCH;
use reqwest::{Method, StatusCode};
use serde::Serialize;

use super::{
    AutoscaleBody, ForceDeleteBody, HoursBody, NoBody, ResizeBody, RollbackBody, ScaleBody,
    Service, ServiceList, ServiceManifest,
};
use crate::client::{Client, ClientError, is_change, query, segment};
use crate::project::project_path;

/// Which services to list. Filters that are `None` do not apply.
#[derive(Debug, Clone, Default)]
pub struct ServiceQuery {
    /// Only services of this project, by name or id.
    pub project: Option<String>,
    /// Only services of this template.
    pub template: Option<String>,
    /// Only services with this plan.
    pub plan: Option<String>,
    /// Only services with this desired state.
    pub desired: Option<String>,
    /// Only services in this phase.
    pub phase: Option<String>,
    /// Only services with this health.
    pub health: Option<String>,
    /// Only services with this reconciliation.
    pub reconciliation: Option<String>,
    /// Only services in this cluster, by name or id.
    pub cluster: Option<String>,
    /// Only services whose name contains this text.
    pub search: Option<String>,
    /// The order: `name`, `created` or `changed`, descending with a minus.
    pub sort: Option<String>,
    /// Whether to count all services that match.
    pub count: bool,
    /// The `next` of the previous page.
    pub cursor: Option<String>,
    /// The page size.
    pub limit: Option<u32>,
}

/// The preconditions and the idempotency key of a change.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Fail unless the service has this generation.
    pub if_generation: Option<i64>,
    /// The idempotency key; a retry with it is applied once.
    pub key: Option<String>,
}

impl Terms {
    /// No precondition and no idempotency key.
    pub const PLAIN: Self = Self { if_generation: None, key: None };
}

/// The result of a change of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The service as it is now.
    pub service: Service,
    /// Whether this request changed anything.
    pub changed: bool,
}

impl Client {
    /// A page of services.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_list(&self, wanted: &ServiceQuery) -> Result<ServiceList, ClientError> {
        let limit = wanted.limit.map(|limit| limit.to_string());
        let parameters = [
            ("project", wanted.project.as_deref()),
            ("template", wanted.template.as_deref()),
            ("plan", wanted.plan.as_deref()),
            ("desired", wanted.desired.as_deref()),
            ("phase", wanted.phase.as_deref()),
            ("health", wanted.health.as_deref()),
            ("reconciliation", wanted.reconciliation.as_deref()),
            ("cluster", wanted.cluster.as_deref()),
            ("search", wanted.search.as_deref()),
            ("sort", wanted.sort.as_deref()),
            ("count", wanted.count.then_some("true")),
            ("cursor", wanted.cursor.as_deref()),
            ("limit", limit.as_deref()),
        ];
        self.get(&query("/v1/services", &parameters)).await
    }

    /// Every service that matches a query; reads all pages.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn every_service(&self, mut query: ServiceQuery) -> Result<ServiceList, ClientError> {
        let mut all = ServiceList { items: Vec::new(), next: None, total: None };
        query.limit = Some(1000);
        loop {
            let page = self.service_list(&query).await?;
            all.items.extend(page.items);
            if page.next.is_none() {
                return Ok(all);
            }
            query.cursor = page.next;
        }
    }

    /// Declares a service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_put(
        &self,
        project: &str,
        name: &str,
        manifest: &ServiceManifest,
        terms: &Terms,
    ) -> Result<Accepted, ClientError> {
        let path = service_path(project, name)?;
        self.change(Method::PUT, &path, manifest, terms).await
    }

    /// Declares a service, and creates its project if none has this name.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_put_with_project(
        &self,
        project: &str,
        name: &str,
        manifest: &ServiceManifest,
        terms: &Terms,
    ) -> Result<Accepted, ClientError> {
        let path = format!("{}?with_project=true", service_path(project, name)?);
        self.change(Method::PUT, &path, manifest, terms).await
    }

    /// Declares a service, only if this exact preview is still valid.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_put_previewed(
        &self,
        project: &str,
        name: &str,
        manifest: &ServiceManifest,
        preview: &str,
        terms: &Terms,
    ) -> Result<Accepted, ClientError> {
        let path = query(&service_path(project, name)?, &[("preview", Some(preview))]);
        self.change(Method::PUT, &path, manifest, terms).await
    }

    /// A service with its objects and, once it is deleted, its receipt.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_get(
        &self,
        project: &str,
        name_or_id: &str,
    ) -> Result<Service, ClientError> {
        self.get(&service_path(project, name_or_id)?).await
    }

    /// Deletes a service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_delete(
        &self,
        project: &str,
        name_or_id: &str,
        terms: &Terms,
    ) -> Result<Accepted, ClientError> {
        let path = service_path(project, name_or_id)?;
        self.change(Method::DELETE, &path, &NoBody {}, terms).await
    }

    /// Pauses a service: stops its pods and keeps everything else.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_pause(
        &self,
        project: &str,
        name_or_id: &str,
        terms: &Terms,
    ) -> Result<Accepted, ClientError> {
        self.act(project, name_or_id, "pause", &NoBody {}, terms).await
    }

    /// Resumes a paused service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_resume(
        &self,
        project: &str,
        name_or_id: &str,
        terms: &Terms,
    ) -> Result<Accepted, ClientError> {
        self.act(project, name_or_id, "resume", &NoBody {}, terms).await
    }

    /// Restarts a service: replaces every pod.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_restart(
        &self,
        project: &str,
        name_or_id: &str,
        terms: &Terms,
    ) -> Result<Accepted, ClientError> {
        self.act(project, name_or_id, "restart", &NoBody {}, terms).await
    }

    /// Sets the number of a service's pods.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_scale(
        &self,
        project: &str,
        name_or_id: &str,
        body: &ScaleBody,
        terms: &Terms,
    ) -> Result<Accepted, ClientError> {
        self.act(project, name_or_id, "scale", body, terms).await
    }

    /// Turns autoscaling of a service on, within bounds.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_autoscale(
        &self,
        project: &str,
        name_or_id: &str,
        body: &AutoscaleBody,
        terms: &Terms,
    ) -> Result<Accepted, ClientError> {
        self.act(project, name_or_id, "autoscale", body, terms).await
    }

    /// Changes the plan of a service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_resize(
        &self,
        project: &str,
        name_or_id: &str,
        body: &ResizeBody,
        terms: &Terms,
    ) -> Result<Accepted, ClientError> {
        self.act(project, name_or_id, "resize", body, terms).await
    }

    /// Sets when a service runs.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_hours(
        &self,
        project: &str,
        name_or_id: &str,
        body: &HoursBody,
        terms: &Terms,
    ) -> Result<Accepted, ClientError> {
        self.act(project, name_or_id, "hours", body, terms).await
    }

    /// Rolls a service back to an earlier generation.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_rollback(
        &self,
        project: &str,
        name_or_id: &str,
        body: &RollbackBody,
        terms: &Terms,
    ) -> Result<Accepted, ClientError> {
        self.act(project, name_or_id, "rollback", body, terms).await
    }

    /// Force-completes the stuck deletion of a service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn service_force_delete(
        &self,
        project: &str,
        name_or_id: &str,
        body: &ForceDeleteBody,
        terms: &Terms,
    ) -> Result<Accepted, ClientError> {
        self.act(project, name_or_id, "force-delete", body, terms).await
    }

    async fn act<B: Serialize + Sync>(
        &self,
        project: &str,
        name_or_id: &str,
        action: &str,
        body: &B,
        terms: &Terms,
    ) -> Result<Accepted, ClientError> {
        let path = format!("{}/{action}", service_path(project, name_or_id)?);
        self.change(Method::POST, &path, body, terms).await
    }

    async fn change<B: Serialize + Sync>(
        &self,
        method: Method,
        path: &str,
        body: &B,
        terms: &Terms,
    ) -> Result<Accepted, ClientError> {
        let mut request = self.request(method, path).json(body);
        if let Some(generation) = terms.if_generation {
            request = request.header(IF_MATCH, format!("\"g{generation}\""));
        }
        if let Some(key) = &terms.key {
            request = request.header("Idempotency-Key", key);
        }
        let response = self.send(request, path).await?;
        let status: StatusCode = response.status();
        Ok(Accepted { service: self.body(response, path).await?, changed: is_change(status) })
    }
}

pub(crate) fn service_path(project: &str, name_or_id: &str) -> Result<String, ClientError> {
    Ok(format!("{}/services/{}", project_path(project)?, segment(name_or_id)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths_are_encoded() {
        assert_eq!(service_path("a b", "x/y").unwrap(), "/v1/projects/a%20b/services/x%2Fy");
        assert!(service_path("..", "x").is_err());
    }
}
