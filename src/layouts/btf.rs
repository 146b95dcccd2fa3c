//! The layout of the Linux that runs, from its BTF (`/sys/kernel/btf/vmlinux`).
//!
//! BTF keeps no alignment and no allocation rules; those are inferred from version and architecture.

mod types;

use std::path::Path;
use std::sync::OnceLock;

use kernels::layout::{AccessForm, AllocationRules, Arch, Layout, StructLayout};

use super::LayoutError;
use types::Types;

/// Where Linux shows its own BTF.
pub const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// Structs that every layout from BTF holds, as far as Linux was built with them.
const STRUCTS: [&str; 8] = [
    "psi_group",
    "psi_group_cpu",
    "cgroup",
    "cgroup_subsys_state",
    "css_set",
    "kernfs_node",
    "task_struct",
    "rq",
];

/// Which Linux a BTF belongs to; BTF itself does not say.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Path, for errors and as source.
    pub file: String,
    /// As in `/proc/sys/kernel/osrelease`.
    pub version: String,
    /// Architecture.
    pub arch: Arch,
}

impl Origin {
    /// The Linux that runs.
    pub fn running() -> Result<Origin, LayoutError> {
        let release = "/proc/sys/kernel/osrelease";
        let version = std::fs::read_to_string(release).map_err(|e| LayoutError::Btf {
            file: VMLINUX.into(),
            problem: format!("its version is unknown, {release} cannot be read: {e}"),
        })?;
        let arch = match std::env::consts::ARCH {
            "x86_64" => Arch::X86_64,
            "aarch64" => Arch::Arm64,
            other => {
                return Err(LayoutError::Btf {
                    file: VMLINUX.into(),
                    problem: format!("architecture {other} has no access form; x86-64, arm64 have"),
                });
            }
        };
        Ok(Origin {
            file: VMLINUX.into(),
            version: version.trim().into(),
            arch,
        })
    }
}

/// The layout of the Linux that runs, read at the first call only.
pub fn running() -> Result<&'static Layout, LayoutError> {
    static RUNNING: OnceLock<Layout> = OnceLock::new();
    if let Some(layout) = RUNNING.get() {
        return Ok(layout);
    }
    let layout = from_path(Path::new(VMLINUX), &Origin::running()?, &[])?;
    Ok(RUNNING.get_or_init(|| layout))
}

/// [`from_bytes`] of the file `path`.
pub fn from_path(path: &Path, origin: &Origin, further: &[&str]) -> Result<Layout, LayoutError> {
    let bytes = std::fs::read(path).map_err(|e| LayoutError::Btf {
        file: origin.file.clone(),
        problem: format!("cannot be read: {e}"),
    })?;
    from_bytes(&bytes, origin, further)
}

/// The layout in the BTF `bytes`: the structs of the PSI path and `further` ones, as far as they
/// are there.
pub fn from_bytes(bytes: &[u8], origin: &Origin, further: &[&str]) -> Result<Layout, LayoutError> {
    let error = |problem| LayoutError::Btf {
        file: origin.file.clone(),
        problem,
    };
    let types = Types::parse(bytes).map_err(error)?;
    let mut structs = Vec::new();
    for name in STRUCTS.iter().chain(further) {
        if structs.iter().any(|s: &StructLayout| s.name == *name) {
            continue;
        }
        let found = types
            .layout(name, &origin.file)
            .map_err(|p| error(format!("struct {name}: {p}")))?;
        structs.extend(found);
    }
    let version = super::version_key(&origin.version);
    let seq_in_group_cpu = structs
        .iter()
        .any(|s| s.name == "psi_group_cpu" && s.fields.iter().any(|f| f.name == "seq"));
    let strides: &[u32] = if version < (6, 12, 0) {
        &[192, 256]
    } else {
        &[320]
    };
    Ok(Layout {
        name: "btf".into(),
        version: origin.version.clone(),
        arch: origin.arch,
        config: "as built; BTF does not say".into(),
        psi_form: AccessForm {
            arch: origin.arch,
            seq_in_group_cpu,
            states_one_by_one: seq_in_group_cpu && version < (6, 9, 0),
            recorded: false,
        },
        allocation: AllocationRules {
            group_cpu_strides_bytes: strides.to_vec(),
            strides_observed: false,
        },
        structs,
    })
}
