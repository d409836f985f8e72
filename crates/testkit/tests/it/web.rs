//! The TypeScript client that is generated from the OpenAPI document compiles in strict mode.

use std::process::Command;

use trueup_testkit::left_out::left_out;

use crate::edges::root;

#[test]
fn generated_client_compiles_in_strict_mode() {
    if Command::new("npm").arg("--version").output().is_err() {
        left_out("npm is not installed");
        return;
    }
    for args in [&["ci", "--no-audit", "--no-fund"][..], &["run", "check"]] {
        let output = Command::new("npm").args(args).current_dir(root().join("web")).output();
        let output = output.expect("npm should run");
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "npm {args:?}:\n{out}{err}");
    }
}
