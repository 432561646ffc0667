// Asks pkg-config where qkv is; a crate of that name does the same.
use std::process::Command;

fn main() {
    let output = Command::new("pkg-config").args(["--libs", "qkv"]).output().expect("pkg-config is missing");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for flag in String::from_utf8_lossy(&output.stdout).split_whitespace() {
        if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo:rustc-link-search={folder}");
        } else if let Some(name) = flag.strip_prefix("-l") {
            println!("cargo:rustc-link-lib={name}");
        }
    }
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
}
