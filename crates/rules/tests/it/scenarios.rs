//! Stories: `scenarios/NAME.txt` says what happens, `scenarios/NAME.out` what Trueup does about it.
//!
//! Both are plain text that anybody may read. `TRUEUP_BLESS=1 cargo test -p trueup-rules` writes the
//! `.out` files anew; the diff is then for a person to judge.

use std::fs;
use std::path::PathBuf;

use crate::script::play;

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "it", "scenarios"].iter().collect()
}

fn tells_its_story(name: &str) {
    let script = fs::read_to_string(folder().join(format!("{name}.txt"))).expect("a script");
    let story = play(&script);
    assert_eq!(story, play(&script), "the same script told twice");
    let golden = folder().join(format!("{name}.out"));
    if std::env::var_os("TRUEUP_BLESS").is_some() {
        fs::write(&golden, &story).expect("a story that can be written");
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    assert!(
        story == expected,
        "{name} tells another story; look at the difference, then bless it:\n{story}"
    );
}

macro_rules! stories {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                tells_its_story(stringify!($name));
            }
        )*

        #[test]
        fn every_script_is_played() {
            let mut scripts: Vec<String> = fs::read_dir(folder())
                .unwrap()
                .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
                .filter_map(|name| name.strip_suffix(".txt").map(str::to_owned))
                .collect();
            scripts.sort();
            assert_eq!(scripts, [$(stringify!($name)),*]);
        }
    };
}

stories! {
    a_blocked_change_does_not_stop_what_runs
    a_change_of_a_variable
    a_change_of_image
    a_claim_is_deleted_by_somebody
    a_container_is_slipped_in
    a_cron_is_made_and_paused
    a_delete_leaves_what_is_not_ours
    a_frozen_service_loses_its_pods
    a_job_fails
    a_job_is_made_and_asked_for_again
    a_job_of_an_older_release_is_left_alone
    a_minecraft_server_is_deleted
    a_minecraft_server_is_made
    a_port_is_bent
    a_project_is_made
    a_project_waits_for_its_namespace_to_end
    a_service_is_deleted
    a_service_is_paused
    a_service_object_is_deleted_by_somebody
    a_stripped_copy_is_not_ours
    a_stripped_object_is_repaired
    a_variable_is_taken_away
    a_web_service_is_made
    a_worker_has_no_address
    additions_of_others_are_left_alone
    an_anchor_is_deleted_before_the_next_is_recorded
    an_anchor_is_deleted_by_somebody
    an_autoscaler_says_how_many
    an_edit_that_hides_itself
    an_object_of_somebody_else_is_in_the_way
    nothing_changed
    replicas_are_changed_by_somebody
    the_namespace_is_deleted_by_somebody
    the_namespace_is_deleted_while_parts_remain
    the_project_is_not_ready
    what_cannot_be_changed
}
