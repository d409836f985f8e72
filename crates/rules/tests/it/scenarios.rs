//! Scenarios: `scenarios/NAME.txt` says what happens, `scenarios/NAME.out` how Trueup reacts.
//!
//! Both are plain text. `TRUEUP_BLESS=1 cargo test -p trueup-rules` writes
//! the `.out` files again; review the diff.

use std::fs;
use std::path::PathBuf;

use crate::script::play;

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "it", "scenarios"].iter().collect()
}

fn matches_its_output(name: &str) {
    let script = fs::read_to_string(folder().join(format!("{name}.txt"))).expect("a script");
    let output = play(&script);
    assert_eq!(output, play(&script), "the same script should give the same output");
    let golden = folder().join(format!("{name}.out"));
    if std::env::var_os("TRUEUP_BLESS").is_some() {
        fs::write(&golden, &output).expect("the output should be written");
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    assert!(
        output == expected,
        "the output of {name} changed; review it, then bless it:\n{output}"
    );
}

macro_rules! scenarios {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                matches_its_output(stringify!($name));
            }
        )*

        #[test]
        fn every_script_is_run() {
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

scenarios! {
    a_blocked_change_keeps_running_pods
    a_change_of_a_variable
    a_change_of_image
    a_claim_is_deleted_externally
    a_cron_is_created_and_paused
    a_delete_keeps_foreign_objects
    a_foreign_container_is_removed
    a_foreign_object_blocks_the_service
    a_frozen_service_loses_its_pods
    a_job_fails
    a_job_is_created_and_run_again
    a_job_of_an_older_version_is_kept
    a_minecraft_server_is_created
    a_minecraft_server_is_deleted
    a_port_is_changed_externally
    a_project_is_created
    a_project_waits_for_its_terminating_namespace
    a_recreated_object_without_proof_is_foreign
    a_service_is_deleted
    a_service_is_paused
    a_service_object_is_deleted_externally
    a_stripped_object_is_repaired
    a_variable_is_removed
    a_volume_grows
    a_web_service_is_created
    a_worker_has_no_service_object
    additions_to_open_paths_are_kept
    an_anchor_is_deleted_before_the_next_is_recorded
    an_anchor_is_deleted_externally
    an_autoscaler_sets_the_replicas
    an_edit_with_a_forged_stamp_is_reverted
    ignored_replicas_stay_through_an_upgrade
    immutable_fields_block_or_replace
    nothing_changed
    replicas_are_changed_externally
    the_namespace_is_deleted_externally
    the_namespace_is_deleted_while_parts_remain
    the_project_is_not_ready
}
