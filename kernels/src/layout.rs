//! Where the fields of Linux structs lie: data, resolved to offsets once per point.

use core::fmt;

/// One field of a struct, as `pahole` or BTF gives it. Nested names use dots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldLayout {
    /// C name.
    pub name: String,
    /// Offset in the struct, in bytes; for a bit field, of the byte that holds its first bit.
    pub offset_bytes: u32,
    /// Size in bytes; for a bit field, of its declared type.
    pub size_bytes: u32,
    /// For a bit field: first bit within the byte at `offset_bytes`, and number of bits.
    pub bits: Option<(u32, u32)>,
    /// C type, where known.
    pub type_name: String,
}

/// Byte layout of one Linux struct in one build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructLayout {
    /// C name.
    pub name: String,
    /// `sizeof`, in bytes.
    pub size_bytes: u32,
    /// Alignment in bytes; `None` where the source does not keep it (BTF).
    pub align_bytes: Option<u32>,
    /// By offset; gaps are holes.
    pub fields: Vec<FieldLayout>,
    /// Whether every field is listed, so that a gap is a hole.
    pub fields_complete: bool,
    /// Where these numbers come from.
    pub source: String,
}

/// Processor architecture of a Linux build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// 64-bit x86.
    X86_64,
    /// 64-bit Arm.
    Arm64,
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Arch::X86_64 => "x86-64",
            Arch::Arm64 => "arm64",
        })
    }
}

/// How Linux of some version makes the accesses of the PSI path; which of it was recorded from a
/// running Linux, and which is inferred from its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccessForm {
    /// Decides widths and orders: arm64 loads `tasks[1..3]` in one go, x86-64 one by one.
    pub arch: Arch,
    /// The sequence count lies in every `psi_group_cpu` (6.1 to 6.12.0) and the clock is read per
    /// visit; otherwise one per-CPU count and one clock read serve the whole call (6.12.118 on).
    pub seq_in_group_cpu: bool,
    /// Each state is tested by itself, nine loads (6.1 to 6.8); otherwise all at once, three.
    pub states_one_by_one: bool,
    /// Whether a stream of exactly this form was recorded.
    pub recorded: bool,
}

/// How the allocators of a build place the objects of the PSI path beyond what sizes tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationRules {
    /// Distances between `psi_group_cpu` of consecutive cgroups, in bytes; more than one: drawn.
    pub group_cpu_strides_bytes: Vec<u32>,
    /// Whether those strides were observed for this build.
    pub strides_observed: bool,
}

/// All structs of one Linux build that kernels need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// `<version>-<config>-<arch>`, such as `6.12.118-debian-arm64`; or `btf`.
    pub name: String,
    /// Linux version, as the source writes it.
    pub version: String,
    /// Architecture.
    pub arch: Arch,
    /// Build configuration in words.
    pub config: String,
    /// Exact accesses of the PSI path.
    pub psi_form: AccessForm,
    /// Placement beyond sizes.
    pub allocation: AllocationRules,
    /// The structs.
    pub structs: Vec<StructLayout>,
}

/// A field or struct that a kernel needs and the layout lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingField {
    /// Struct asked for.
    pub struct_name: String,
    /// Field asked for; empty if the struct itself is missing.
    pub field: String,
    /// Layout asked.
    pub layout: String,
}

impl fmt::Display for MissingField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            write!(
                f,
                "layout {} has no struct {}",
                self.layout, self.struct_name
            )
        } else {
            write!(
                f,
                "layout {}: struct {} has no field {}",
                self.layout, self.struct_name, self.field
            )
        }
    }
}

impl std::error::Error for MissingField {}

/// Fields that were renamed between versions: `(struct, name used here, older or newer name)`.
/// Sources: 6.4 renamed `poll_*` to `rtpoll_*` in psi_group; 6.15 renamed `kernfs_node.parent`.
pub const ALIASES: &[(&str, &str, &str)] = &[
    ("psi_group", "rtpoll_states", "poll_states"),
    ("kernfs_node", "parent", "__parent"),
];

impl Layout {
    /// The struct called `name`.
    pub fn of(&self, name: &str) -> Result<&StructLayout, MissingField> {
        self.structs
            .iter()
            .find(|s| s.name == name)
            .ok_or_else(|| MissingField {
                struct_name: name.into(),
                field: String::new(),
                layout: self.name.clone(),
            })
    }

    /// The field `field` of struct `name`, by that name or an alias of it. A bit field written
    /// `name:bits` is found by its bare name.
    pub fn field(&self, name: &str, field: &str) -> Result<&FieldLayout, MissingField> {
        let layout = self.of(name)?;
        let is = |have: &str, want: &str| have.split(':').next() == Some(want);
        let aliases = ALIASES
            .iter()
            .filter(|(s, a, b)| *s == name && (*a == field || *b == field))
            .flat_map(|(_, a, b)| [*a, *b]);
        core::iter::once(field)
            .chain(aliases)
            .find_map(|want| layout.fields.iter().find(|f| is(&f.name, want)))
            .ok_or_else(|| MissingField {
                struct_name: name.into(),
                field: field.into(),
                layout: self.name.clone(),
            })
    }
}
