//! `kwalk layout`: Linux structs as kwalk sees them.

use std::io::{ErrorKind, Write as _};
use std::path::Path;

use kernels::layout::Layout;

use crate::layouts::{self, LayoutError, btf, listing, slab};
use crate::wrap::wrap;

/// Byte layouts of Linux structs.
#[derive(Debug, clap::Args)]
pub struct LayoutArgs {
    #[command(subcommand)]
    what: LayoutCommand,
}

#[derive(Debug, clap::Subcommand)]
enum LayoutCommand {
    /// List a struct with offsets, lines and holes; fields of the PSI walk are marked
    Show(ShowArgs),
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// Struct, such as psi_group; from BTF, any that Linux has
    #[arg(value_name = "STRUCT")]
    struct_name: String,
    /// A built-in layout (a unique beginning will do), btf for the Linux that runs, or a TOML file
    /// (FILE:NAME if it holds several). Default: btf, without BTF a built-in one
    #[arg(long, value_name = "NAME|btf|FILE")]
    from: Option<String>,
}

/// Where a host shows its slab caches.
const SLAB_ROOT: &str = "/sys/kernel/slab";

/// Run `kwalk layout`. Wrong input is a [`LayoutError`].
pub fn layout(args: &LayoutArgs) -> anyhow::Result<()> {
    let LayoutCommand::Show(show) = &args.what;
    let layout = chosen(show)?;
    let text = shown(&layout, &show.struct_name)?;
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // Somebody reads only the beginning, as `head` does.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

/// The layout asked for; if none was, that of the Linux that runs, and without BTF a built-in one.
fn chosen(show: &ShowArgs) -> Result<Layout, LayoutError> {
    let vmlinux = Path::new(btf::VMLINUX);
    match show.from.as_deref() {
        Some("btf") => {}
        Some(from) => return layouts::resolve(from),
        None if vmlinux.exists() => {}
        None => {
            let fallback = layouts::FALLBACK;
            eprintln!(
                "note: this host has no {}: showing the built-in layout {fallback} instead",
                vmlinux.display()
            );
            return layouts::find(fallback).cloned();
        }
    }
    btf::from_path(vmlinux, &btf::Origin::running()?, &[&show.struct_name])
}

/// Listing and allocation of one struct.
fn shown(layout: &Layout, struct_name: &str) -> Result<String, LayoutError> {
    if layout.of(struct_name).is_err() {
        let names: Vec<&str> = layout.structs.iter().map(|s| s.name.as_str()).collect();
        return Err(LayoutError::UnknownStruct {
            layout: layout.name.clone(),
            struct_name: struct_name.into(),
            accepted: names.join(", "),
        });
    }
    let size_bytes = layout.of(struct_name)?.size_bytes;
    let mut text = listing::listing(layout, struct_name)?;
    let present = std::fs::read_to_string("/sys/devices/system/cpu/present").ok();
    let cpus = present
        .and_then(|list| slab::cpus_in_list(&list))
        .unwrap_or(1);
    let root = Path::new(SLAB_ROOT);
    let mut notes =
        slab::allocation_notes(struct_name, size_bytes, cpus, root.exists().then_some(root));
    if !notes.is_empty() {
        notes.insert(
            0,
            format!("allocation by SLUB's rules, {cpus} CPUs present:"),
        );
    }
    if struct_name == "psi_group_cpu" {
        let strides: Vec<String> = layout
            .allocation
            .group_cpu_strides_bytes
            .iter()
            .map(|s| format!("{s} B"))
            .collect();
        notes.push(format!(
            "allocation: per-CPU memory; those of consecutive cgroups are {} apart ({})",
            strides.join(" or "),
            if layout.allocation.strides_observed {
                "observed"
            } else {
                "inferred from neighbouring versions"
            },
        ));
    }
    for note in notes {
        text += &wrap(&note, listing::COLUMNS, "", "  ");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: LayoutArgs,
    }

    fn run(words: &[&str]) -> anyhow::Result<()> {
        layout(&Line::try_parse_from([&["layout"], words].concat())?.args)
    }

    /// All of it is wrong input, which `main` tells from other errors by its type.
    #[test]
    fn wrong_input_is_typed_and_names_what_would_do() {
        for (words, says) in [
            (
                ["show", "psi_grup", "--from", "6.2.1-u"],
                "it has psi_group, psi_group_cpu, cgroup",
            ),
            (
                ["show", "psi_group", "--from", "6.99"],
                "accepted are btf, a file, or",
            ),
            (["show", "psi_group", "--from", "6.2.1"], "could be any of"),
            (
                ["show", "psi_group", "--from", "no/such.toml"],
                "cannot be read",
            ),
        ] {
            let error = run(&words).unwrap_err();
            let typed = error
                .downcast_ref::<LayoutError>()
                .expect("wrong input is a LayoutError");
            let text = typed.to_string();
            assert!(
                text.contains(says) && !text.contains('\n'),
                "{words:?}: {text}"
            );
        }
    }

    /// Strides belong to the listing of a per-CPU object, slab classes to that of a heap object,
    /// neither to that of an embedded one. 1696 + 8 * 44 = 2048: level 43 is the last in 2 KiB.
    #[test]
    fn the_listing_ends_with_the_allocation() {
        let layout = layouts::find("6.2.1-defconfig").expect("built in");
        for (name, says) in [
            ("psi_group_cpu", Some("are 192 B or 256 B apart (inferred")),
            ("psi_group", Some("kmalloc-1k: 1024 B apart")),
            ("cgroup", Some("level 0 to 43: kmalloc-2k: 2048 B apart")),
            ("kernfs_node", Some("kernfs_node_cache: 128 B apart")),
            ("cgroup_subsys_state", None),
        ] {
            let text = shown(layout, name).expect("a struct of the layout");
            match says {
                Some(says) => assert!(text.contains(says), "{text}"),
                None => assert!(!text.contains("apart"), "{text}"),
            }
            assert!(
                text.lines().all(|l| l.chars().count() <= listing::COLUMNS),
                "{text}"
            );
        }
    }
}
