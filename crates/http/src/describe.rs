//! The API described: routes, the OpenAPI document, the reference page, error pages, health and metrics.

pub(crate) mod error_page;
pub(crate) mod former;
pub(crate) mod health;
pub(crate) mod openapi;
pub(crate) mod problems;
pub(crate) mod reference;
pub(crate) mod routes;
