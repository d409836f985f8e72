//! Errors of calls for kinds that a cluster does not serve or forbids.
//!
//! Not among [`all`](super::all): such kinds differ between clusters, so the caller names them.

use futures::StreamExt;
use serde_json::json;
use trueup_cluster::{CallError, Cluster, Draft, Scope};
use trueup_model::key::{Kind, ResourceKey};

use super::place::labelled;

/// Calls for this kind that do not fail with an error of this label, with their results.
pub async fn other_answers(cluster: &dyn Cluster, kind: Kind, label: &str) -> Vec<String> {
    let key = ResourceKey::new(kind, "default", "closed");
    let mut object = labelled(&key);
    object["spec"] = json!({});
    let uid = "00000000-0000-0000-0000-000000000000";
    let watched = cluster.watch(kind, "1".to_owned()).next().await;
    let answers = [
        ("get", cluster.get(&key).await.map(drop)),
        ("list ours", cluster.list(kind, Scope::Ours).await.map(drop)),
        ("list all", cluster.list(kind, Scope::All).await.map(drop)),
        ("versions", cluster.versions(kind).await.map(drop)),
        ("watch", watched.unwrap_or(Err(CallError::Expired)).map(drop)),
        ("apply", cluster.apply(&key, &object).await.map(drop)),
        ("patch", cluster.patch(&key, &json!({ "metadata": {} })).await.map(drop)),
        ("delete", cluster.delete(&key, uid, "1").await),
        ("dry run", cluster.dry_run(&key, Draft::Apply(&object)).await.map(drop)),
    ];
    let other = |answer: &Result<(), CallError>| {
        answer.as_ref().err().is_none_or(|error| error.label() != label)
    };
    let wrong = answers.into_iter().filter(|(_, answer)| other(answer));
    wrong.map(|(verb, answer)| format!("{verb}: {answer:?}")).collect()
}
