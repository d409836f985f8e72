//! Runs the commands in the README, the guides and the template pages.
//!
//! Lines that begin with `$ ` in fenced `console` blocks run in order, all of a document in one
//! shell, against an install of this test. A line that ends with a backslash continues on the next
//! line, and so does a line before one that begins with `> `.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::Instant;
use trueup_testkit::left_out::left_out;

use crate::install::{Install, TRUEUP, alone, shared};

/// Longer than the commands of any document take on a busy machine.
const DOCUMENT: Duration = Duration::from_secs(1200);

/// A line number and the command on it.
type Line = (usize, String);

/// The README deletes everything in the cluster, so it needs an exclusive install.
#[tokio::test]
async fn every_command_in_the_readme_and_the_guides_works() {
    let mut documents = pages("docs/guides");
    documents.insert(0, root().join("README.md"));
    if on_path("kubectl").is_none() {
        left_out("the documents' commands with kubectl: it is not installed");
    }
    let install = alone().await;
    run(&install, &documents).await;
}

#[tokio::test]
async fn every_command_in_the_template_pages_works() {
    run(shared().await, &pages("docs/templates")).await;
}

/// Runs all commands of the documents.
async fn run(install: &Install, documents: &[PathBuf]) {
    let here = install.dir().join("reader");
    copy_demo(&root().join("demo"), &here.join("demo"));
    let mut ran = 0;
    for document in documents {
        let text = fs::read_to_string(document).unwrap();
        let commands = blocks(&text).concat();
        let mut command = Command::new("bash");
        command
            .args(["-c", &script(&commands)])
            .current_dir(&here)
            .env("PATH", path_with_trueup())
            .env("TRUEUP_DATA_DIR", install.dir())
            .env("TRUEUP_CONFIG", here.join("config.yaml"))
            .env("TRUEUP_PORT", install.port().to_string())
            .kill_on_drop(true);
        for name in ["TRUEUP_URL", "TRUEUP_TOKEN", "TRUEUP_PROJECT", "TRUEUP_ORG", "TRUEUP_CONTEXT"]
        {
            command.env_remove(name);
        }
        let began = Instant::now();
        let output = tokio::time::timeout(DOCUMENT, command.output()).await;
        let output =
            output.unwrap_or_else(|_| panic!("{} did not end", document.display())).unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {stderr}", document.display());
        let out = String::from_utf8_lossy(&output.stdout);
        let (_, all) = out.rsplit_once('\n').unwrap_or_default();
        assert_eq!(all, commands.len().to_string(), "{}: {stderr}{out}", document.display());
        println!("{all} commands in {:.1?} of {}", began.elapsed(), document.display());
        ran += commands.len();
    }
    assert!(ran > 0, "no commands found in {documents:?}");
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// Every page in a folder, in order.
fn pages(folder: &str) -> Vec<PathBuf> {
    let folder = fs::read_dir(root().join(folder)).unwrap();
    let mut found: Vec<PathBuf> = folder.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    found.sort();
    found
}

/// The commands of each block that has any.
fn blocks(text: &str) -> Vec<Vec<Line>> {
    let mut blocks = Vec::new();
    let mut block: Option<Vec<Line>> = None;
    let mut continues = false;
    for (number, line) in (1..).zip(text.lines()) {
        match &mut block {
            None if line.trim() == "```console" => block = Some(Vec::new()),
            None => {}
            Some(commands) if line.trim() == "```" => {
                commands.retain(|(_, command)| is_run(command));
                blocks.extend(block.take().filter(|commands| !commands.is_empty()));
            }
            Some(commands) => {
                if let Some(command) = line.strip_prefix("$ ") {
                    commands.push((number, command.to_owned()));
                } else if let Some((_, command)) =
                    commands.last_mut().filter(|_| continues || line.starts_with("> "))
                {
                    command.push('\n');
                    command.push_str(line.strip_prefix("> ").unwrap_or(line));
                } else {
                    continue;
                }
                continues = line.ends_with('\\');
            }
        }
    }
    blocks
}

/// Skips `make`, which builds and starts this test, and kubectl where it is not installed.
fn is_run(command: &str) -> bool {
    let is_make = command.starts_with("make ") || command.contains(" make ");
    let lacks_kubectl = command.starts_with("kubectl") && on_path("kubectl").is_none();
    !is_make && !lacks_kubectl
}

/// The file of a program that is installed.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// A script that runs the commands in order and stops at the first failure. Its last line is the
/// number of commands that ran.
fn script(block: &[Line]) -> String {
    let mut script = "set -o pipefail\nran=0\n".to_owned();
    for (number, command) in block {
        script.push_str(&format!(
            "{command}\n\
             code=$?; [ $code -eq 0 ] || {{ echo \"line {number} ended with $code\" >&2; exit 1; }}\n\
             ran=$((ran + 1))\n"
        ));
    }
    script.push_str("printf '\\n%s' $ran\n");
    script
}

fn path_with_trueup() -> OsString {
    let folder = Path::new(TRUEUP).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths([folder].into_iter().chain(std::env::split_paths(&path))).unwrap()
}

fn copy_demo(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn only_console_commands_are_found() {
    let text = "```console\n$ trueup get \\\n    services\nNAME\n$ make up\n\
                $ cat <<END\n> a\n> END\n```\n\
                ```yaml\n$ no\n```\n$ no\n```console\n$ trueup status\n```\n";
    let found = blocks(text);
    let first =
        vec![(2, "trueup get \\\n    services".to_owned()), (6, "cat <<END\na\nEND".to_owned())];
    assert_eq!(found, [first, vec![(15, "trueup status".to_owned())]]);
}
