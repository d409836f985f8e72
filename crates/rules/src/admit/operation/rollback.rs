//! Rollbacks: an earlier release becomes the next one, under the rules of today.
//!
//! The release is not resolved again, so a template that was changed since does not change it. But
//! its plan is the plan as it is now: what is sold, what it costs and where it runs.

use trueup_model::plan::Plan;
use trueup_model::release::Release;
use trueup_model::service::Service;
use trueup_model::template::Template;

use super::OperationContext;
use crate::admit::template::faults;
use crate::admit::volume::shrinkage;
use crate::admit::{
    AdmissionRequest, FieldError, Refused, ReleaseSpec, forbidden_changes, must_live,
};

/// Operations whose changes are not part of a release's spec.
const OUTSIDE_OF_SPEC: [&str; 4] = ["configure", "endpoint", "domain", "hours"];

/// Whether a rollback without a generation would undo the last change.
///
/// It restores the last spec that differs, so it must not skip a change that is not in the spec.
///
/// # Errors
/// The last change was to variables, secrets, endpoints, domains or active hours.
pub fn undoes(last: Option<&str>) -> Result<(), Refused> {
    if last.is_none_or(|action| !OUTSIDE_OF_SPEC.contains(&action)) {
        return Ok(());
    }
    let message = "is required: the last change was to variables, secrets, endpoints, domains or active hours, \
                   which a rollback does not restore. Set them back, or name a generation to restore its \
                   spec; `trueup get releases` lists them";
    Err(Refused::at("to", message))
}

/// A release of a service, for the choice of the one to go back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastRelease {
    /// Its generation.
    pub generation: i64,
    /// Whether it restored an earlier release.
    pub is_rollback: bool,
    /// A digest of its spec.
    pub spec: String,
}

/// The generation that a rollback without one restores: the last spec that differs.
///
/// `history` begins with the present release and goes back. What was restored stands where it stood
/// first: a second rollback goes further back, and never returns to what the first one undid.
#[must_use]
pub fn target(history: &[PastRelease]) -> Option<i64> {
    let mut rest = history;
    loop {
        let spec = &rest.first()?.spec;
        let (same, before) =
            rest.split_at(rest.iter().position(|one| one.spec != *spec).unwrap_or(rest.len()));
        let restored = same.iter().any(|one| one.is_rollback);
        match before.iter().position(|one| one.spec == *spec).filter(|_| restored) {
            Some(first) => rest = before.get(first..)?,
            None => return before.first().map(|one| one.generation),
        }
    }
}

/// The earlier release with the present resources and nodes of its plan; paused state, restart
/// counter and drift policy stay.
pub(super) fn rolled_back(
    to: Option<i64>,
    context: OperationContext<'_>,
) -> Result<ReleaseSpec, Refused> {
    let OperationContext { current, template, plan, release } = context;
    must_live(Some(current))?;
    let release = release.ok_or_else(|| no_release(to))?;
    let template = template.ok_or_else(|| {
        let message = format!("`{}` is no longer published", release.template);
        Refused::at("template", format!("{message}; declare the service with another version"))
    })?;
    let mut next = ReleaseSpec {
        template: release.template.clone(),
        parameters: release.parameters.clone(),
        drift: current.drift.clone(),
        active: current.active.clone(),
        spec: release.spec.clone(),
        desired: current.desired,
        scheduled_off: current.scheduled_off,
    };
    next.spec.restart = current.spec.restart;
    // As in a declaration: only the plan chooses the nodes.
    next.spec.nodes = plan.and_then(|plan| plan.nodes.clone());
    if let Some(plan) = plan {
        next.spec.resources = plan.resources.clone();
    }
    let errors = errors(&next, template, plan, current, release);
    if errors.is_empty() { Ok(next) } else { Err(Refused::Invalid(errors)) }
}

fn no_release(to: Option<i64>) -> Refused {
    let message = match to {
        Some(generation) => format!("generation {generation} does not exist"),
        None => "no earlier generation has a different spec".to_owned(),
    };
    Refused::at("to", format!("{message}; `trueup get releases` lists them"))
}

/// Every rule of today that the restored release breaks.
fn errors(
    next: &ReleaseSpec,
    template: &Template,
    plan: Option<&Plan>,
    current: &Service,
    release: &Release,
) -> Vec<FieldError> {
    let request = AdmissionRequest {
        template: next.template.clone(),
        plan: next.spec.plan.clone(),
        parameters: next.parameters.clone(),
        drift: next.drift.clone(),
        active: next.active.clone(),
    };
    let mut errors = forbidden_changes(&request, template, current);
    errors.extend(plan_error(release, plan, current));
    errors.extend(deprecation(release, template, current));
    errors.extend(smaller_volume(next, current, release));
    errors.extend(faults(template, &next.spec).into_iter().map(|fault| {
        let message = format!(
            "generation {} is refused by a rule of today: `{}` {}; declare the service instead",
            release.generation, fault.place, fault.message
        );
        FieldError::at("to", message)
    }));
    errors
}

/// A retired plan takes no service back, but a service that has it keeps it.
fn plan_error(release: &Release, plan: Option<&Plan>, current: &Service) -> Option<FieldError> {
    let wanted = release.spec.plan.as_ref()?;
    let since = match plan {
        None => "no longer exists",
        Some(plan) if plan.retired && current.spec.plan.as_ref() != Some(wanted) => {
            "is retired since that release"
        }
        Some(_) => return None,
    };
    let message = format!(
        "plan `{wanted}` {since}; declare the service with another plan, `trueup get plans` lists \
         them"
    );
    Some(FieldError::at("plan", message))
}

/// A volume keeps its size or grows, so a release with a smaller one cannot be restored.
fn smaller_volume(next: &ReleaseSpec, current: &Service, release: &Release) -> Option<FieldError> {
    let (wanted, present) = shrinkage(&next.spec, current)?;
    let message = format!(
        "generation {} has a volume of {wanted} GiB and the present size is {present} GiB: a volume \
         can grow, but not shrink; declare the service with the present size instead",
        release.generation
    );
    Some(FieldError::at("to", message))
}

/// A deprecated version is restored only if the service has it now.
fn deprecation(release: &Release, template: &Template, current: &Service) -> Option<FieldError> {
    let deprecated = template.deprecated.as_ref()?;
    if release.template == current.template {
        return None;
    }
    let message = format!(
        "`{}` is deprecated since {}; {}, or roll back to a generation of `{}`",
        release.template, deprecated.at, deprecated.instead, current.template
    );
    Some(FieldError::at("template", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `g` for a declaration, `r` for a rollback, each with the digit of its spec; oldest first.
    fn history(text: &str) -> Vec<PastRelease> {
        let words: Vec<&str> = text.split(' ').collect();
        let past = words.iter().zip(1..).map(|(word, generation)| PastRelease {
            generation,
            is_rollback: word.starts_with('r'),
            spec: word[1..].to_owned(),
        });
        let mut past: Vec<PastRelease> = past.collect();
        past.reverse();
        past
    }

    #[test]
    fn second_rollback_goes_further_back() {
        for (past, expected) in [
            ("g1", None),
            ("g1 g2", Some(1)),
            ("g1 g2 g2", Some(1)),
            ("g1 g2 g3", Some(2)),
            ("g1 g2 g3 r2", Some(1)),
            ("g1 g2 g3 r2 g2", Some(1)),
            ("g1 g2 g3 r2 r1", None),
            ("g1 g2 r1", None),
            ("g1 g2 r1 g3", Some(3)),
            ("g1 g2 g1", Some(2)),
            // Restored under rules of today, so that no earlier spec is the same.
            ("g1 g2 r9", Some(2)),
        ] {
            assert_eq!(target(&history(past)), expected, "{past}");
        }
    }
}
