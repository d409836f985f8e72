//! An executor does not keep an old order for long, even if a wake was lost.

use trueup_model::key::Kind;

use crate::rig::Rig;

#[tokio::test]
async fn change_whose_wake_was_lost_converges_within_a_round() {
    let mut rig = Rig::new().await;
    rig.start("one");
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    rig.until_running("web").await;
    rig.until_wakes(0).await;

    rig.db.lose_wakes(true).await;
    rig.declare("web", "web:2").await;
    rig.declare("new", "web:1").await;
    rig.db.lose_wakes(false).await;
    assert_eq!(rig.db.count_wakes().await, (0, 0), "no unit is woken");

    rig.until_running("web").await;
    rig.until_running("new").await;
    rig.until_wakes(0).await;
    let deployments = rig.fake.objects(Kind::Deployment);
    let images: Vec<&str> = deployments
        .iter()
        .filter_map(|object| object["spec"]["template"]["spec"]["containers"][0]["image"].as_str())
        .collect();
    assert!(images.contains(&"web:2"), "{images:?}");
}
