//! Marks: what has to be metered again.

use jiff::Timestamp;
use sqlx::PgPool;
use trueup_model::id::ClusterId;

use crate::Error;
use crate::db::clock::sql;
use crate::db::pool::Tx;

/// A mark as it was read. It is deleted only if it was not set again since.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct Mark {
    kind: String,
    key: String,
    since: jiff_sqlx::Timestamp,
    seq: i64,
}

/// The oldest marks of a cluster.
pub(super) async fn oldest(
    pool: &PgPool,
    cluster: ClusterId,
    limit: i64,
) -> Result<Vec<Mark>, Error> {
    let marks = sqlx::query_as(
        "select kind, key, since, seq from usage_marks where cluster_id = $1
         order by since, kind, key limit $2",
    )
    .bind(cluster.uuid())
    .bind(limit)
    .fetch_all(pool)
    .await?;
    Ok(marks)
}

/// The uids of the objects that the marks are about.
///
/// A node changes the usage of the pods that were on it, and a release that of its service's
/// objects, as far as they had not ended before.
pub(super) async fn objects(
    tx: &mut Tx,
    cluster: ClusterId,
    marks: &[Mark],
) -> Result<Vec<String>, Error> {
    let of = |kind: &str| -> Vec<&Mark> { marks.iter().filter(|it| it.kind == kind).collect() };
    let keys = |marks: &[&Mark]| -> Vec<String> { marks.iter().map(|it| it.key.clone()).collect() };
    let since = |marks: &[&Mark]| -> Vec<jiff_sqlx::Timestamp> {
        marks.iter().map(|mark| mark.since).collect()
    };
    let (nodes, services) = (of("node"), of("service"));
    let found: Vec<(String,)> = sqlx::query_as(
        "select unnest($2::text[])
         union
         select t.uid from unnest($3::text[], $4::timestamptz[]) as n (name, since)
         join transitions t on t.cluster_id = $1 and t.what = 'scheduled' and t.detail ->> 'node' = n.name
         where exists (select from usage_intervals u
                       where u.cluster_id = $1 and u.object = t.uid and u.superseded_at is null
                         and (u.open or u.ends_at >= n.since))
         union
         select u.object from unnest($5::text[], $6::timestamptz[]) as n (id, since)
         join usage_intervals u on u.service_id = n.id::uuid and u.cluster_id = $1
              and u.superseded_at is null and (u.open or u.ends_at >= n.since - interval '1 minute')",
    )
    .bind(cluster.uuid())
    .bind(keys(&of("object")))
    .bind(keys(&nodes))
    .bind(since(&nodes))
    .bind(keys(&services))
    .bind(since(&services))
    .fetch_all(&mut **tx)
    .await?;
    Ok(found.into_iter().map(|(uid,)| uid).collect())
}

/// Deletes marks that were not set again since they were read.
pub(super) async fn done(tx: &mut Tx, cluster: ClusterId, marks: &[Mark]) -> Result<(), Error> {
    sqlx::query(
        "delete from usage_marks m
         using unnest($2::text[], $3::text[], $4::bigint[]) as n (kind, key, seq)
         where m.cluster_id = $1 and m.kind = n.kind and m.key = n.key and m.seq = n.seq",
    )
    .bind(cluster.uuid())
    .bind(marks.iter().map(|mark| mark.kind.as_str()).collect::<Vec<_>>())
    .bind(marks.iter().map(|mark| mark.key.as_str()).collect::<Vec<_>>())
    .bind(marks.iter().map(|mark| mark.seq).collect::<Vec<_>>())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// What a transition is about, for the meter: an object, or a node.
pub(crate) struct Changed<'a> {
    /// `object` or `node`.
    pub(crate) kind: &'static str,
    /// The uid of the object, or the name of the node.
    pub(crate) key: &'a str,
    /// When it changed.
    pub(crate) at: Timestamp,
}

/// Marks what new transitions are about. Each thing once, however often it changed.
pub(crate) async fn set(
    tx: &mut Tx,
    cluster: ClusterId,
    changed: &[Changed<'_>],
) -> Result<(), Error> {
    if changed.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into usage_marks (cluster_id, kind, key, since)
         select $1, n.kind, n.key, min(n.since)
         from unnest($2::text[], $3::text[], $4::timestamptz[]) as n (kind, key, since)
         group by n.kind, n.key order by n.kind, n.key
         on conflict (cluster_id, kind, key) do update
             set seq = usage_marks.seq + 1, since = least(usage_marks.since, excluded.since)",
    )
    .bind(cluster.uuid())
    .bind(changed.iter().map(|it| it.kind).collect::<Vec<_>>())
    .bind(changed.iter().map(|it| it.key).collect::<Vec<_>>())
    .bind(changed.iter().map(|it| sql(it.at)).collect::<Vec<_>>())
    .execute(&mut **tx)
    .await?;
    Ok(())
}
