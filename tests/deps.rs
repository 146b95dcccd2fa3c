//! `scripts/deps.sh` on machines that are made of stubs: a `PATH` with nothing on it but what the
//! test put there, so that no package manager of the host is ever called.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Every thing that the script looks for, in its order.
const THINGS: [&str; 6] = [
    "linker",
    "pkg-config",
    "hwloc",
    "libudev",
    "valgrind",
    "binutils",
];

/// A machine: `bin/` is its `PATH`, `has/` holds one empty file per library that is installed,
/// `log` the calls of its package managers.
struct Host {
    dir: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// One machine at a time: a stub that is being written while another thread forks cannot be
/// executed for a moment ("text file busy").
static TURN: Mutex<()> = Mutex::new(());

impl Host {
    /// A machine with a shell, a Rust new enough, root as the user, and these `things`.
    fn with(things: &[&str]) -> Host {
        let host = Host {
            dir: tempfile::tempdir().expect("a temporary folder can be made"),
            _turn: TURN.lock().unwrap_or_else(PoisonError::into_inner),
        };
        for folder in ["bin", "has", "stock"] {
            fs::create_dir(host.path(folder)).unwrap();
        }
        for tool in ["sed", "env", "cp"] {
            symlink(real(tool), host.path("bin").join(tool)).unwrap();
        }
        host.cargo(concat!(env!("CARGO_PKG_RUST_VERSION"), ".0"));
        host.stub("bin", "id", "echo 0");
        let has = host.path("has");
        // Answers `--exists` for what is in has/, whose content is the version; of constraints it
        // knows what the script asks: `hwloc >= 2.8.0` and `hwloc < 3.0.0`.
        let pkg_config = format!(
            r#"cd '{}'
case $1 in
    --modversion) [ -e "$2" ] && read -r version < "$2" && echo "$version" ;;
    --exists)
        shift
        for wanted; do
            [ -e "${{wanted%% *}}" ] || exit 1
            read -r version < "${{wanted%% *}}"
            case $wanted in
                *'>= 2.8.0') case $version in 2.[0-7].*|1.*) exit 1 ;; esac ;;
                *'< 3.0.0') case $version in 3.*) exit 1 ;; esac ;;
                *' '*) echo "constraint unknown to the stub: $wanted" >&2; exit 1 ;;
            esac
        done ;;
esac"#,
            has.display()
        );
        host.stub("stock", "cc", "echo /usr/lib/crt1.o");
        host.stub("stock", "pkg-config", &pkg_config);
        host.stub("stock", "valgrind", "exit 0");
        host.stub("stock", "objdump", "exit 0");
        for thing in things {
            match *thing {
                "hwloc" => fs::write(has.join("hwloc"), "2.9.0\n").unwrap(),
                "libudev" => fs::write(has.join("libudev"), "252\n").unwrap(),
                _ => {
                    let name = command_of(thing);
                    let stock = host.path("stock").join(name);
                    fs::copy(stock, host.path("bin").join(name)).unwrap();
                }
            }
        }
        host
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// An executable `name` in `folder` that runs `body`.
    fn stub(&self, folder: &str, name: &str, body: &str) {
        let path = self.path(folder).join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn cargo(&self, version: &str) {
        self.stub("bin", "cargo", &format!("echo 'cargo {version} (stub)'"));
    }

    /// A package manager that writes its arguments to the log and then runs `body`.
    fn manager(&self, name: &str, body: &str) {
        let log = self.path("log");
        let body = format!("echo \"{name} $*\" >> '{}'\n{body}", log.display());
        self.stub("bin", name, &body);
    }

    /// Shell text that makes everything installed.
    fn installs_all(&self) -> String {
        let (root, bin) = (self.dir.path().display(), self.path("bin"));
        format!(
            "cp '{root}/stock/'* '{}'\necho 2.9.0 > '{root}/has/hwloc'\necho 252 > '{root}/has/libudev'",
            bin.display()
        )
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/deps.sh");
        let output = Command::new("/bin/sh")
            .arg(script)
            .args(arguments)
            .env_clear()
            .env("PATH", self.path("bin"))
            .output()
            .expect("/bin/sh runs");
        Outcome::of(&output, &self.path("log"))
    }
}

/// What a run of the script said and did.
#[derive(Debug)]
struct Outcome {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    /// Calls of package managers, one per line.
    calls: Vec<String>,
}

impl Outcome {
    fn of(output: &Output, log: &Path) -> Outcome {
        Outcome {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            calls: fs::read_to_string(log)
                .unwrap_or_default()
                .lines()
                .map(str::to_owned)
                .collect(),
        }
    }
}

/// The command by which a thing is found.
fn command_of(thing: &str) -> &str {
    match thing {
        "linker" => "cc",
        "binutils" => "objdump",
        other => other,
    }
}

/// Where the host keeps `tool`.
fn real(tool: &str) -> PathBuf {
    std::env::split_paths(&std::env::var_os("PATH").expect("PATH is set"))
        .map(|folder| folder.join(tool))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("{tool} is on the PATH of the test"))
}

/// All is there: no package manager is called, though there is one, and nothing is complained of.
#[test]
fn nothing_missing_nothing_installed() {
    let host = Host::with(&THINGS);
    host.manager("apt-get", "");
    let outcome = host.run(&[]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.calls.is_empty(), "{outcome:?}");
    assert!(outcome.stderr.is_empty(), "{outcome:?}");
    for thing in THINGS {
        assert!(outcome.stdout.contains(thing), "{thing}: {outcome:?}");
    }
}

/// Each package manager gets its own distribution's names, in one call without questions; the
/// call is announced in full before it is made; a second run then finds nothing to do.
#[test]
fn each_package_manager_by_its_own_names() {
    let cases = [
        (
            "apt-get",
            "install -y --no-install-recommends gcc libc6-dev pkg-config libhwloc-dev libudev-dev valgrind binutils",
        ),
        (
            "dnf",
            "install -y --setopt=install_weak_deps=False gcc glibc-devel pkgconf-pkg-config hwloc-devel systemd-devel valgrind binutils",
        ),
        (
            "pacman",
            "-S --needed --noconfirm gcc glibc pkgconf hwloc systemd valgrind binutils",
        ),
        (
            "zypper",
            "--non-interactive install --no-recommends gcc glibc-devel pkg-config hwloc-devel libudev-devel valgrind binutils",
        ),
    ];
    for (manager, arguments) in cases {
        let host = Host::with(&[]);
        host.manager(manager, &host.installs_all());
        let call = format!("{manager} {arguments}");
        // Only apt keeps lists that must be refreshed by a call of its own. Its stub installs
        // at that call already, which the script cannot know.
        let calls = match manager {
            "apt-get" => vec!["apt-get update".to_owned(), call.clone()],
            _ => vec![call.clone()],
        };
        let outcome = host.run(&[]);
        assert_eq!(outcome.code, Some(0), "{manager}: {outcome:?}");
        assert_eq!(outcome.calls, calls, "{manager}");
        assert!(outcome.stdout.contains(&call), "{manager}: {outcome:?}");
        let again = host.run(&[]);
        assert_eq!(again.code, Some(0), "{manager}: {again:?}");
        assert_eq!(again.calls, calls, "{manager}: a second run does nothing");
    }
}

/// Of six things one is missing: only its package is asked for.
#[test]
fn only_what_is_missing() {
    let packages = [
        "gcc libc6-dev",
        "pkg-config",
        "libhwloc-dev",
        "libudev-dev",
        "valgrind",
        "binutils",
    ];
    for (missing, packages) in THINGS.into_iter().zip(packages) {
        if missing == "pkg-config" {
            continue; // Without it hwloc and libudev cannot be seen: the next test.
        }
        let others: Vec<&str> = THINGS.into_iter().filter(|t| *t != missing).collect();
        let host = Host::with(&others);
        host.manager("apt-get", &host.installs_all());
        let outcome = host.run(&[]);
        let install = format!("apt-get install -y --no-install-recommends {packages}");
        assert_eq!(outcome.calls, ["apt-get update", &install], "{missing}");
    }
}

/// Libraries are seen through pkg-config; where that is missing they are asked for with it.
#[test]
fn without_pkg_config_the_libraries_are_asked_for_too() {
    let host = Host::with(&["linker", "hwloc", "libudev", "valgrind", "binutils"]);
    host.manager("apt-get", &host.installs_all());
    let outcome = host.run(&[]);
    let install = "apt-get install -y --no-install-recommends pkg-config libhwloc-dev libudev-dev";
    assert_eq!(outcome.calls, ["apt-get update", install]);
}

/// A compiler whose C library lacks its development files answers `-print-file-name` with the
/// bare name: that is no linker.
#[test]
fn a_compiler_without_the_c_library_is_no_linker() {
    let host = Host::with(&THINGS);
    host.stub("bin", "cc", "echo crt1.o");
    let outcome = host.run(&[]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("gcc libc6-dev"), "{outcome:?}");
}

/// No cargo, one that does not start, one that is too old: exit 1, one sentence with the version
/// that is wanted, and nothing installed.
#[test]
fn without_a_fit_cargo_nothing_is_installed() {
    let wanted = env!("CARGO_PKG_RUST_VERSION");
    let cases = [
        ("absent", None, "cargo is not here"),
        ("no toolchain", Some("exit 1"), "rustup default stable"),
        ("old", Some("echo 'cargo 1.63.0 (x)'"), "1.63.0 is too old"),
        ("older", Some("echo 'cargo 0.99.0'"), "0.99.0 is too old"),
    ];
    for (case, cargo, words) in cases {
        let host = Host::with(&[]);
        host.manager("apt-get", "");
        match cargo {
            Some(body) => host.stub("bin", "cargo", body),
            None => fs::remove_file(host.path("bin").join("cargo")).unwrap(),
        }
        let outcome = host.run(&[]);
        assert_eq!(outcome.code, Some(1), "{case}: {outcome:?}");
        assert!(outcome.stderr.contains(words), "{case}: {outcome:?}");
        assert!(
            case == "no toolchain" || outcome.stderr.contains(wanted),
            "{case}: {outcome:?}"
        );
        assert_eq!(outcome.stderr.lines().count(), 1, "{case}: {outcome:?}");
        assert!(outcome.calls.is_empty(), "{case}: {outcome:?}");
    }
}

/// Versions are compared as numbers: 1.100 is later than 1.89, 2.0 too, and a nightly has a tail.
#[test]
fn later_versions_of_cargo_are_fit() {
    for version in ["1.100.0", "2.0.0", "1.97.0-nightly"] {
        let host = Host::with(&THINGS);
        host.cargo(version);
        let outcome = host.run(&[]);
        assert_eq!(outcome.code, Some(0), "{version}: {outcome:?}");
    }
}

/// No package manager that is known: the packages are named. Without a linker nothing can be
/// built, exit 1; without the rest the build goes on, exit 0, and what is lost is said.
#[test]
fn without_a_package_manager() {
    for (things, code) in [(&THINGS[..0], 1), (&THINGS[..1], 0), (&THINGS[..4], 0)] {
        let host = Host::with(things);
        let outcome = host.run(&[]);
        assert_eq!(outcome.code, Some(code), "{things:?}: {outcome:?}");
        let stderr = &outcome.stderr;
        assert!(stderr.contains("none of apt-get"), "{things:?}: {stderr}");
        assert!(stderr.contains("valgrind binutils"), "{things:?}: {stderr}");
        assert_eq!(
            stderr.contains("--no-default-features"),
            things.len() < 4,
            "{things:?}: {stderr}"
        );
    }
}

/// A user calls the package manager through sudo, root does not, and a user without sudo is told
/// the command.
#[test]
fn sudo_only_for_a_user_who_has_it() {
    for (user, sudo) in [("0", true), ("1000", true), ("1000", false)] {
        let host = Host::with(&["linker", "pkg-config"]);
        host.stub("bin", "id", &format!("echo {user}"));
        host.manager("dnf", &host.installs_all());
        if sudo {
            host.manager("sudo", "exec \"$@\"");
        }
        let outcome = host.run(&[]);
        let dnf = "dnf install -y --setopt=install_weak_deps=False hwloc-devel systemd-devel valgrind binutils";
        let calls: Vec<String> = match (user, sudo) {
            ("0", _) => vec![dnf.into()],
            (_, true) => vec![format!("sudo {dnf}"), dnf.into()],
            (_, false) => Vec::new(),
        };
        assert_eq!(outcome.code, Some(0), "{user} {sudo}: {outcome:?}");
        assert_eq!(outcome.calls, calls, "{user} {sudo}");
        if calls.is_empty() {
            assert!(outcome.stderr.contains(dnf), "{outcome:?}");
        }
    }
}

/// One package that cannot be had does not keep the others away.
#[test]
fn one_by_one_where_all_at_once_fails() {
    let host = Host::with(&["pkg-config", "hwloc", "libudev"]);
    let stock = host.path("stock").display().to_string();
    let bin = host.path("bin").display().to_string();
    // Refuses every call that names valgrind, as apt does where an architecture lacks it.
    host.manager(
        "pacman",
        &format!(
            "case $* in *valgrind*) exit 1 ;; *binutils*) cp '{stock}/objdump' '{bin}' ;; *gcc*) cp '{stock}/cc' '{bin}' ;; esac"
        ),
    );
    let outcome = host.run(&[]);
    let calls: Vec<String> = [
        "gcc glibc valgrind binutils",
        "gcc",
        "glibc",
        "valgrind",
        "binutils",
    ]
    .map(|packages| format!("pacman -S --needed --noconfirm {packages}"))
    .into();
    assert_eq!(outcome.calls, calls);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(
        outcome.stderr.contains("still missing: valgrind\n"),
        "{outcome:?}"
    );
}

/// A package manager that installs nothing (no network): exit 1 where the linker is among it.
#[test]
fn an_installation_that_fails_is_said() {
    for (things, code) in [(&THINGS[..0], 1), (&THINGS[..2], 0)] {
        let host = Host::with(things);
        host.manager("apt-get", "exit 100");
        let outcome = host.run(&[]);
        assert_eq!(outcome.code, Some(code), "{things:?}: {outcome:?}");
        assert!(
            outcome.stderr.contains("could not be refreshed"),
            "{outcome:?}"
        );
        assert!(outcome.stderr.contains("still missing:"), "{outcome:?}");
    }
}

/// The Cargo flags follow from the hwloc that is here: 2.8.0 is the least that the feature's
/// `hwloc-2_8_0` accepts, the next major is refused, and libudev is linked with it.
#[test]
fn features_follow_the_hwloc_that_is_here() {
    let without = "--no-default-features\n";
    for (hwloc, libudev, flags) in [
        (Some("2.9.0"), true, ""),
        (Some("2.8.0"), true, ""),
        (Some("2.12.1"), true, ""),
        (Some("2.7.0"), true, without),
        (Some("3.0.0"), true, without),
        (Some("2.9.0"), false, without),
        (None, true, without),
    ] {
        let host = Host::with(&["linker", "pkg-config", "valgrind", "binutils"]);
        if let Some(version) = hwloc {
            fs::write(host.path("has").join("hwloc"), format!("{version}\n")).unwrap();
        }
        if libudev {
            fs::write(host.path("has").join("libudev"), "252\n").unwrap();
        }
        let outcome = host.run(&["--features"]);
        assert_eq!(outcome.stdout, flags, "{hwloc:?} {libudev}");
        assert_eq!(outcome.code, Some(0), "{hwloc:?} {libudev}");
        let told = host.run(&[]).stderr.contains("built without hwloc");
        assert_eq!(told, !flags.is_empty(), "{hwloc:?} {libudev}: said as well");
    }
    let bare = Host::with(&[]).run(&["--features"]);
    assert_eq!(bare.stdout, without, "no pkg-config at all");
    assert!(bare.stderr.is_empty(), "{bare:?}");
}

/// The version that the script asks for is the one that Cargo.toml's feature of hwlocality names.
#[test]
fn script_and_manifest_ask_for_the_same_hwloc() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = fs::read_to_string(root.join("scripts/deps.sh")).unwrap();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let version = script
        .lines()
        .find_map(|line| line.strip_prefix("hwloc_at_least="))
        .expect("the script sets hwloc_at_least");
    let feature = format!("\"hwloc-{}\"", version.replace('.', "_"));
    assert!(manifest.contains(&feature), "{feature} in Cargo.toml");
}

/// An argument that the script does not know: exit 2 and what it would take.
#[test]
fn an_unknown_argument_is_refused() {
    let outcome = Host::with(&THINGS).run(&["--feature"]);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("--features"), "{outcome:?}");
    assert!(outcome.calls.is_empty());
}
