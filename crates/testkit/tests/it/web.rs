//! The dashboard in `web/`: its types agree with the OpenAPI document, its unit tests pass, and what a browser
//! loads first is small.

use std::process::Command;

use trueup_testkit::left_out::left_out;

use crate::edges::root;

/// Builds the dashboard if it is not up to date, and runs a script of its `package.json`.
fn run(script: &str) {
    if Command::new("npm").arg("--version").output().is_err() {
        left_out("npm is not installed");
        return;
    }
    for (program, args) in
        [("scripts/web-build", &[][..]), ("npm", &["run", script, "--prefix", "web"])]
    {
        let output = Command::new(program).args(args).current_dir(root()).output();
        let output = output.expect("the program should run");
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{program} {args:?}:\n{out}{err}");
    }
}

#[test]
fn sources_of_the_dashboard_pass_strict_type_checks() {
    run("check");
}

#[test]
fn unit_tests_of_the_dashboard_pass() {
    run("test");
}

#[test]
fn first_load_of_the_dashboard_is_small() {
    run("size");
}
