//! The page about each problem code, from `docs/errors/`.

use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};

/// The page about a problem's code.
pub(crate) async fn error_page(Path(code): Path<String>) -> Answer<Response> {
    let page = PAGES.iter().find(|(name, _)| *name == code).map(|(_, page)| *page);
    let page = page.ok_or_else(|| Failure::not_found("error code"))?;
    Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], page).into_response())
}

/// The pages, by code. Only this list is searched: no file path is made from the request.
const PAGES: &[(&str, &str)] = &[
    ("TU1001", include_str!("../../../../docs/errors/TU1001.md")),
    ("TU1002", include_str!("../../../../docs/errors/TU1002.md")),
    ("TU1003", include_str!("../../../../docs/errors/TU1003.md")),
    ("TU1004", include_str!("../../../../docs/errors/TU1004.md")),
    ("TU1005", include_str!("../../../../docs/errors/TU1005.md")),
    ("TU1006", include_str!("../../../../docs/errors/TU1006.md")),
    ("TU1007", include_str!("../../../../docs/errors/TU1007.md")),
    ("TU1008", include_str!("../../../../docs/errors/TU1008.md")),
    ("TU1009", include_str!("../../../../docs/errors/TU1009.md")),
    ("TU1010", include_str!("../../../../docs/errors/TU1010.md")),
    ("TU1011", include_str!("../../../../docs/errors/TU1011.md")),
    ("TU1101", include_str!("../../../../docs/errors/TU1101.md")),
    ("TU1102", include_str!("../../../../docs/errors/TU1102.md")),
    ("TU1103", include_str!("../../../../docs/errors/TU1103.md")),
    ("TU1104", include_str!("../../../../docs/errors/TU1104.md")),
    ("TU1105", include_str!("../../../../docs/errors/TU1105.md")),
    ("TU1201", include_str!("../../../../docs/errors/TU1201.md")),
    ("TU1301", include_str!("../../../../docs/errors/TU1301.md")),
    ("TU1302", include_str!("../../../../docs/errors/TU1302.md")),
    ("TU1303", include_str!("../../../../docs/errors/TU1303.md")),
    ("TU1304", include_str!("../../../../docs/errors/TU1304.md")),
    ("TU1305", include_str!("../../../../docs/errors/TU1305.md")),
    ("TU1306", include_str!("../../../../docs/errors/TU1306.md")),
    ("TU1401", include_str!("../../../../docs/errors/TU1401.md")),
    ("TU1402", include_str!("../../../../docs/errors/TU1402.md")),
    ("TU1403", include_str!("../../../../docs/errors/TU1403.md")),
    ("TU1501", include_str!("../../../../docs/errors/TU1501.md")),
    ("TU2001", include_str!("../../../../docs/errors/TU2001.md")),
    ("TU2002", include_str!("../../../../docs/errors/TU2002.md")),
    ("TU2101", include_str!("../../../../docs/errors/TU2101.md")),
    ("TU1012", include_str!("../../../../docs/errors/TU1012.md")),
    ("TU2201", include_str!("../../../../docs/errors/TU2201.md")),
    ("TU9001", include_str!("../../../../docs/errors/TU9001.md")),
];

#[cfg(test)]
mod tests {
    use trueup_api::Code;

    use super::*;

    #[test]
    fn every_code_has_a_page_that_names_it() {
        for code in Code::ALL {
            let page = PAGES.iter().find(|(name, _)| *name == code.into_str());
            let (_, text) =
                page.unwrap_or_else(|| panic!("{} should have a page", code.into_str()));
            let heading = format!("# {}: {}", code.into_str(), code.title());
            assert!(
                text.starts_with(&heading),
                "{} should begin with {heading:?}",
                code.into_str()
            );
        }
    }
}
