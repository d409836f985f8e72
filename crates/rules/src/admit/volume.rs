//! Volumes only grow: Kubernetes cannot make a disk smaller.

use trueup_model::service::Service;
use trueup_model::spec::Spec;
use trueup_model::template::Template;

use crate::admit::FieldError;

/// Where a spec has the size of its volume.
const SIZE: &str = "/volume/size_gib";

/// The wanted and the present size in GiB, if the volume would shrink.
pub(crate) fn shrinkage(wanted: &Spec, current: &Service) -> Option<(u32, u32)> {
    let wanted = wanted.volume.as_ref()?.size_gib;
    let present = current.spec.volume.as_ref()?.size_gib;
    (wanted < present).then_some((wanted, present))
}

/// The error of a declaration that would shrink the volume, at the parameter that sets its size.
pub(super) fn error(template: &Template, wanted: &Spec, current: &Service) -> Option<FieldError> {
    let (wanted, present) = shrinkage(wanted, current)?;
    let parameter = template.parameters.iter().find(|(_, parameter)| parameter.sets == SIZE);
    Some(match parameter {
        Some((name, _)) => FieldError::at(
            format!("parameters.{name}"),
            format!(
                "must be at least {present}, the present size, is {wanted}: a volume can grow, but \
                 not shrink"
            ),
        ),
        None => FieldError::at(
            "template",
            format!(
                "`{}` has a volume of {wanted} GiB and the present size is {present} GiB: a volume \
                 can grow, but not shrink",
                template.reference()
            ),
        ),
    })
}
