//! Layout files: TOML in, [`Layout`] out, and nothing accepted that could not be a C struct.

use std::collections::HashSet;

use kernels::layout::{AccessForm, AllocationRules, Arch, FieldLayout, Layout, StructLayout};
use serde::Deserialize;

use super::LayoutError;

/// Larger than any struct of Linux that is one object (`struct rq` has 4 KiB, `task_struct` with
/// all of the FPU state 14 KiB); keeps offsets far from overflow.
const MAX_STRUCT_BYTES: u32 = 1 << 24;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileToml {
    layout: Vec<LayoutToml>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LayoutToml {
    name: String,
    version: String,
    arch: String,
    config: String,
    source: String,
    access_form: String,
    recorded: bool,
    group_cpu_strides_bytes: Vec<u32>,
    strides_observed: bool,
    #[serde(rename = "struct", default)]
    structs: Vec<StructToml>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StructToml {
    name: String,
    size_bytes: u32,
    align_bytes: Option<u32>,
    fields_complete: bool,
    /// Where it differs from the layout's.
    source: Option<String>,
    fields: Vec<FieldToml>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldToml {
    name: String,
    offset_bytes: u32,
    size_bytes: u32,
    bit_offset: Option<u32>,
    bits: Option<u32>,
    #[serde(default)]
    union: bool,
    type_name: String,
}

/// The layouts in `text`; `file` names it in errors.
pub fn parse(file: &str, text: &str) -> Result<Vec<Layout>, LayoutError> {
    let parsed: FileToml = toml::from_str(text).map_err(|e| {
        let at = e.span().map_or(0, |s| s.start).min(text.len());
        LayoutError::Toml {
            file: file.into(),
            line: text.as_bytes()[..at]
                .iter()
                .filter(|&&b| b == b'\n')
                .count()
                + 1,
            problem: e.message().replace('\n', ", "),
        }
    })?;
    if parsed.layout.is_empty() {
        return Err(LayoutError::Invalid {
            file: file.into(),
            place: "layout".into(),
            problem: "holds no layout; one or more tables [[layout]]".into(),
        });
    }
    let mut seen = HashSet::new();
    let mut layouts = Vec::new();
    for layout in parsed.layout {
        let place = format!("layout {}", layout.name);
        let invalid = |place: &str, problem: String| LayoutError::Invalid {
            file: file.into(),
            place: place.into(),
            problem,
        };
        if !seen.insert(layout.name.clone()) {
            return Err(invalid(
                &place,
                "the name occurs twice; each layout has its own".into(),
            ));
        }
        layouts.push(layout.check().map_err(|(at, problem)| {
            invalid(
                &[place.as_str(), &at].join(if at.is_empty() { "" } else { ", " }),
                problem,
            )
        })?);
    }
    Ok(layouts)
}

/// Place within the layout, and problem.
type Problem = (String, String);

/// The access form that a file writes `<version>-<arch>`: the Linux whose accesses are of that form.
fn access_form(text: &str, arch: Arch, recorded: bool) -> Result<AccessForm, Problem> {
    let forms = [
        ("6.1", true, true),
        ("6.12.0", true, false),
        ("6.12.118", false, false),
    ];
    forms
        .into_iter()
        .find(|(version, ..)| text == format!("{version}-{arch}"))
        .map(|(_, seq_in_group_cpu, states_one_by_one)| AccessForm {
            arch,
            seq_in_group_cpu,
            states_one_by_one,
            recorded,
        })
        .ok_or_else(|| {
            let accepted = forms
                .map(|(version, ..)| format!("{version}-{arch}"))
                .join(", ");
            (
                String::new(),
                format!("access_form = \"{text}\" is unknown for {arch}; one of {accepted}"),
            )
        })
}

impl LayoutToml {
    fn check(self) -> Result<Layout, Problem> {
        let top = |problem: String| (String::new(), problem);
        if self.name.is_empty() || self.name == "btf" || self.name.contains(['/', ':', ',']) {
            return Err(top(format!(
                "name = \"{}\" cannot be asked for; write <version>-<config>-<arch>",
                self.name
            )));
        }
        let arch = match self.arch.as_str() {
            "x86-64" => Arch::X86_64,
            "arm64" => Arch::Arm64,
            other => return Err(top(format!("arch = \"{other}\"; one of x86-64, arm64"))),
        };
        let psi_form = access_form(&self.access_form, arch, self.recorded)?;
        let mut names = HashSet::new();
        let mut structs = Vec::new();
        for s in self.structs {
            let place = format!("struct {}", s.name);
            if !names.insert(s.name.clone()) {
                return Err((place, "occurs twice; each struct occurs once".into()));
            }
            structs.push(s.check(&self.source)?);
        }
        let strides = &self.group_cpu_strides_bytes;
        let size = structs.iter().find(|s| s.name == "psi_group_cpu");
        let least = size.map_or(1, |s| s.size_bytes);
        if strides.is_empty()
            || strides
                .iter()
                .any(|s| !(least..=MAX_STRUCT_BYTES).contains(s))
        {
            return Err(top(format!(
                "group_cpu_strides_bytes = {strides:?}; one or more, each from the {least} bytes of \
                 psi_group_cpu to {MAX_STRUCT_BYTES}"
            )));
        }
        if let Some(s) = size {
            let has_seq = s.fields.iter().any(|f| f.name == "seq");
            if has_seq != psi_form.seq_in_group_cpu {
                return Err(top(format!(
                    "access_form = \"{}\" is for a psi_group_cpu {} seq, and this one has {}",
                    self.access_form,
                    if has_seq { "without" } else { "with" },
                    if has_seq { "it" } else { "none" },
                )));
            }
        }
        Ok(Layout {
            name: self.name,
            version: self.version,
            arch,
            config: self.config,
            psi_form,
            allocation: AllocationRules {
                group_cpu_strides_bytes: self.group_cpu_strides_bytes,
                strides_observed: self.strides_observed,
            },
            structs,
        })
    }
}

impl StructToml {
    fn check(self, source: &str) -> Result<StructLayout, Problem> {
        let place = format!("struct {}", self.name);
        if !(1..=MAX_STRUCT_BYTES).contains(&self.size_bytes) {
            return Err((
                place,
                format!("size_bytes = {}; 1 to {MAX_STRUCT_BYTES}", self.size_bytes),
            ));
        }
        if let Some(align) = self.align_bytes
            && (!align.is_power_of_two() || !self.size_bytes.is_multiple_of(align))
        {
            return Err((
                place,
                format!(
                    "align_bytes = {align}; a power of two that divides size_bytes = {}",
                    self.size_bytes
                ),
            ));
        }
        let mut names = HashSet::new();
        for f in &self.fields {
            let here = || format!("{place}, field {}", f.name);
            if !names.insert(f.name.as_str()) {
                return Err((here(), "occurs twice; each field occurs once".into()));
            }
            f.check_extent(self.size_bytes).map_err(|p| (here(), p))?;
        }
        check_overlaps(&self.fields)
            .map_err(|(field, p)| (format!("{place}, field {field}"), p))?;
        let mut fields: Vec<FieldLayout> = self.fields.into_iter().map(FieldToml::layout).collect();
        sort_fields(&mut fields);
        Ok(StructLayout {
            name: self.name,
            size_bytes: self.size_bytes,
            align_bytes: self.align_bytes,
            fields,
            fields_complete: self.fields_complete,
            source: self.source.unwrap_or_else(|| source.into()),
        })
    }
}

/// By offset, an enclosing field before the dotted ones in it.
pub(crate) fn sort_fields(fields: &mut [FieldLayout]) {
    fields.sort_by_key(|f| {
        let first_bit = f.bits.map_or(0, |(first, _)| first);
        (f.offset_bytes, first_bit, f.name.matches('.').count())
    });
}

impl FieldToml {
    /// First and one past the last bit in the struct. Where the bits of a bit field are not known,
    /// its whole storage unit.
    fn extent_bits(&self) -> (u64, u64) {
        let start = 8 * u64::from(self.offset_bytes);
        match (self.bit_offset, self.bits) {
            (Some(first), Some(bits)) => {
                let first = start + u64::from(first);
                (first, first + u64::from(bits))
            }
            _ => (start, start + 8 * u64::from(self.size_bytes)),
        }
    }

    fn check_extent(&self, struct_bytes: u32) -> Result<(), String> {
        let (offset, size) = (self.offset_bytes, self.size_bytes);
        if offset > struct_bytes || self.extent_bits().1 > 8 * u64::from(struct_bytes) {
            return Err(format!(
                "offset_bytes = {offset}, size_bytes = {size} end beyond the {struct_bytes} bytes of \
                 the struct"
            ));
        }
        match (self.bit_offset, self.bits) {
            (None, None) => Ok(()),
            (Some(_), None) => Err("bit_offset without bits; give both".into()),
            (first, Some(bits)) => {
                if first.is_some_and(|b| b > 7) {
                    return Err(format!(
                        "bit_offset = {}; 0 to 7, counted from the byte at offset_bytes",
                        first.unwrap_or(0)
                    ));
                }
                if bits == 0 || size > 8 || bits > 8 * size {
                    return Err(format!(
                        "bits = {bits} with size_bytes = {size}; 1 to the bits of a type of at most \
                         8 bytes"
                    ));
                }
                Ok(())
            }
        }
    }

    /// Whether the place of its bits in the storage unit is unknown.
    fn is_unplaced(&self) -> bool {
        self.bits.is_some() && self.bit_offset.is_none()
    }

    fn layout(self) -> FieldLayout {
        FieldLayout {
            name: match (self.bits, self.bit_offset) {
                (Some(bits), None) => format!("{}:{bits}", self.name),
                _ => self.name,
            },
            offset_bytes: self.offset_bytes,
            size_bytes: self.size_bytes,
            bits: self.bit_offset.zip(self.bits),
            type_name: self.type_name,
        }
    }
}

/// Two fields may share bits only if one lies inside the other by its dotted name, if both are
/// members of a union, or if both are bit fields whose places in one unit are unknown.
fn check_overlaps(fields: &[FieldToml]) -> Result<(), Problem> {
    let mut order: Vec<&FieldToml> = fields.iter().filter(|f| f.size_bytes > 0).collect();
    order.sort_by_key(|f| (f.extent_bits(), f.name.matches('.').count()));
    for f in fields.iter().filter(|f| f.name.contains('.')) {
        let outer = f.name.rsplit_once('.').map_or("", |(outer, _)| outer);
        if let Some(outer) = fields.iter().find(|o| o.name == outer) {
            let ((start, end), (from, to)) = (f.extent_bits(), outer.extent_bits());
            if start < from || end > to {
                return Err((
                    f.name.clone(),
                    format!("lies outside {}, which its name says it is in", outer.name),
                ));
            }
        }
    }
    let inside = |a: &str, b: &str| b.strip_prefix(a).is_some_and(|rest| rest.starts_with('.'));
    for (i, a) in order.iter().enumerate() {
        let (_, end) = a.extent_bits();
        for b in order[i + 1..]
            .iter()
            .take_while(|b| b.extent_bits().0 < end)
        {
            let allowed = (a.union && b.union)
                || (a.is_unplaced() && b.is_unplaced())
                || inside(&a.name, &b.name)
                || inside(&b.name, &a.name);
            if !allowed {
                return Err((
                    b.name.clone(),
                    format!(
                        "overlaps {}; fields of one struct do not, unless both say union = true",
                        a.name
                    ),
                ));
            }
        }
    }
    Ok(())
}
