//! Layouts of Linux structs: the built-in ones, files of the same form, and the Linux that runs.

pub mod btf;
pub mod file;
pub mod listing;
pub mod slab;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use kernels::layout::{Layout, MissingField};

/// The built-in files: name as shown in errors, and contents.
const BUILT_IN: [(&str, &str); 6] = [
    ("psi.toml", include_str!("../../kernels/layouts/psi.toml")),
    (
        "debian-6.1.192-arm64.toml",
        include_str!("../../kernels/layouts/debian-6.1.192-arm64.toml"),
    ),
    (
        "debian-6.1.192-x86-64.toml",
        include_str!("../../kernels/layouts/debian-6.1.192-x86-64.toml"),
    ),
    (
        "debian-6.12.118-arm64.toml",
        include_str!("../../kernels/layouts/debian-6.12.118-arm64.toml"),
    ),
    (
        "debian-6.12.118-x86-64.toml",
        include_str!("../../kernels/layouts/debian-6.12.118-x86-64.toml"),
    ),
    (
        "debian-6.18.12-arm64.toml",
        include_str!("../../kernels/layouts/debian-6.18.12-arm64.toml"),
    ),
];

/// The built-in layout that stands in where nothing is named and the host has no BTF.
pub const FALLBACK: &str = "6.18.2-ubuntu-x86-64";

/// What can be wrong with a layout that was asked for. All of it is wrong input.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// No built-in layout begins like this.
    #[error(
        "layout \"{name}\" is unknown; accepted are btf, a file, or (a unique beginning of) {accepted}"
    )]
    Unknown {
        /// As asked.
        name: String,
        /// Names, joined by commas.
        accepted: String,
    },
    /// More than one built-in layout begins like this.
    #[error("layout \"{name}\" could be any of {matching}; name one of them")]
    Ambiguous {
        /// As asked.
        name: String,
        /// Names, joined by commas.
        matching: String,
    },
    /// The layout has no such struct.
    #[error("layout {layout} has no struct {struct_name}; it has {accepted}")]
    UnknownStruct {
        /// Layout asked.
        layout: String,
        /// Struct asked for.
        struct_name: String,
        /// Names of its structs, joined by commas.
        accepted: String,
    },
    /// A kernel needs a field that the layout lacks.
    #[error("{0}; choose a layout that has it (`kwalk layout show STRUCT --from NAME`)")]
    Missing(#[from] MissingField),
    /// A file cannot be read.
    #[error("{}: cannot be read: {error}; accepted is a layout file in TOML", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A file is not TOML of the form that is expected.
    #[error("{file}, line {line}: {problem}")]
    Toml {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What the parser says; names the key.
        problem: String,
    },
    /// A value makes no sense.
    #[error("{file}: {place}: {problem}")]
    Invalid {
        /// The file.
        file: String,
        /// Layout, struct and field.
        place: String,
        /// Key, value, and what would be accepted.
        problem: String,
    },
    /// BTF that cannot be used.
    #[error("{file}: {problem}; a built-in layout works without it (--from NAME)")]
    Btf {
        /// The file.
        file: String,
        /// Why.
        problem: String,
    },
}

/// All built-in layouts, oldest first. Parsed once.
///
/// # Panics
/// Never, unless a built-in file is broken, which the tests of this crate rule out.
pub fn built_in() -> &'static [Layout] {
    static LAYOUTS: OnceLock<Vec<Layout>> = OnceLock::new();
    LAYOUTS.get_or_init(|| {
        let mut all: Vec<Layout> = BUILT_IN
            .iter()
            .flat_map(|(file, text)| {
                file::parse(file, text).expect("built-in layouts are well formed")
            })
            .collect();
        all.sort_by_key(|l| (version_key(&l.version), l.name.clone()));
        all
    })
}

/// Names of the built-in layouts, oldest first.
pub fn names() -> Vec<&'static str> {
    built_in().iter().map(|l| l.name.as_str()).collect()
}

/// The built-in layout called `name`, or the only one that begins with it.
pub fn find(name: &str) -> Result<&'static Layout, LayoutError> {
    choose(built_in(), name)
}

/// [`find`] among `layouts`.
fn choose<'a>(layouts: &'a [Layout], name: &str) -> Result<&'a Layout, LayoutError> {
    if let Some(exact) = layouts.iter().find(|l| l.name == name) {
        return Ok(exact);
    }
    let join = |found: &[&Layout]| {
        let names: Vec<&str> = found.iter().map(|l| l.name.as_str()).collect();
        names.join(", ")
    };
    let matching: Vec<&Layout> = layouts
        .iter()
        .filter(|l| !name.is_empty() && l.name.starts_with(name))
        .collect();
    match matching[..] {
        [only] => Ok(only),
        [] => Err(LayoutError::Unknown {
            name: name.into(),
            accepted: join(&layouts.iter().collect::<Vec<_>>()),
        }),
        _ => Err(LayoutError::Ambiguous {
            name: name.into(),
            matching: join(&matching),
        }),
    }
}

/// The layouts in the TOML file `path`.
pub fn read_file(path: &Path) -> Result<Vec<Layout>, LayoutError> {
    let text = std::fs::read_to_string(path).map_err(|error| LayoutError::Unreadable {
        file: path.into(),
        error,
    })?;
    file::parse(&path.display().to_string(), &text)
}

/// What `--layout` and `--from` accept: `btf`, a built-in name or a unique beginning of one, a
/// TOML file that holds one layout, or `FILE:NAME` for one of several in a file.
pub fn resolve(from: &str) -> Result<Layout, LayoutError> {
    if from == "btf" {
        return btf::running().cloned();
    }
    let (path, name) = match from.rsplit_once(".toml:") {
        Some((stem, name)) => (PathBuf::from(format!("{stem}.toml")), Some(name)),
        None => (PathBuf::from(from), None),
    };
    let is_path = name.is_some() || from.contains('/') || from.ends_with(".toml");
    if !is_path {
        return find(from).cloned();
    }
    let layouts = read_file(&path)?;
    match (name, &layouts[..]) {
        (Some(name), _) => choose(&layouts, name).cloned(),
        (None, [only]) => Ok(only.clone()),
        (None, _) => {
            let names: Vec<String> = layouts
                .iter()
                .map(|l| format!("{from}:{}", l.name))
                .collect();
            Err(LayoutError::Ambiguous {
                name: from.into(),
                matching: names.join(", "),
            })
        }
    }
}

/// Major, minor and patch of a Linux version such as `6.18.44-fc-v669`; missing parts are 0.
pub(crate) fn version_key(version: &str) -> (u32, u32, u32) {
    let number = |text: Option<&str>| {
        let text = text.unwrap_or("");
        let digits = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        text[..digits].parse().unwrap_or(0)
    };
    let mut parts = version.trim_start_matches('v').splitn(3, '.');
    (
        number(parts.next()),
        number(parts.next()),
        number(parts.next()),
    )
}
