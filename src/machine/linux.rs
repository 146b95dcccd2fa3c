//! What Linux tells of a CPU and of the state that measurements depend on.

use super::cpuid::Cpuid;
use super::family::Identity;
use super::sysfs::{Tree, list_words, one_spaced};
use super::told::{Fact, Told};

/// What the CPUs run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Platform {
    /// A virtual machine; who says so.
    Guest(String),
    /// No hypervisor; who says so.
    BareMetal(String),
    /// Nothing tells.
    Unknown,
}

/// The block of `cpu` in /proc/cpuinfo, as `key`, `value` pairs.
fn cpuinfo(tree: &Tree, cpu: u32) -> Vec<(String, String)> {
    let Told::Is(text) = tree.text("proc/cpuinfo") else {
        return Vec::new();
    };
    let pairs = |block: &str| -> Vec<(String, String)> {
        block
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(key, value)| (key.trim().to_owned(), one_spaced(value)))
            .collect()
    };
    text.split("\n\n")
        .map(pairs)
        .find(|block| {
            block
                .iter()
                .any(|(key, value)| key == "processor" && value.parse() == Ok(cpu))
        })
        .unwrap_or_default()
}

/// Who `cpu` says it is: /proc/cpuinfo and MIDR_EL1 in sysfs, then CPUID.
pub fn identity(tree: &Tree, cpu: u32, cpuid: Option<&Cpuid>) -> Identity {
    let info = cpuinfo(tree, cpu);
    let get = |key: &str| {
        info.iter()
            .find(|(k, v)| k == key && !v.is_empty())
            .map(|(_, v)| v.clone())
    };
    let decimal = |key: &str| get(key)?.parse::<u32>().ok();
    let hex = |key: &str| {
        let text = get(key)?;
        u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
    };
    let midr = tree
        .text(&format!(
            "sys/devices/system/cpu/cpu{cpu}/regs/identification/midr_el1"
        ))
        .parse(|t| u64::from_str_radix(t.strip_prefix("0x")?, 16).ok());
    let midr = midr.value().copied();
    let arm = midr.is_some() || get("CPU implementer").is_some();
    let x86 = cpuid.is_some() || get("vendor_id").is_some();
    let arch = match (arm, x86) {
        (true, _) => "arm64",
        (_, true) => "x86-64",
        _ if cfg!(target_arch = "aarch64") => "arm64",
        _ => "x86-64",
    };
    let sysfs_type = ["core", "atom"].into_iter().find(|kind| {
        let cpus = tree.list(&format!("sys/devices/cpu_{kind}/cpus"));
        cpus.value().is_some_and(|cpus| cpus.contains(&cpu))
    });
    Identity {
        arch: arch.to_owned(),
        vendor: get("vendor_id").or_else(|| Some(cpuid?.vendor.clone())),
        family: decimal("cpu family").or_else(|| Some(cpuid?.family)),
        model: decimal("model").or_else(|| Some(cpuid?.model)),
        stepping: decimal("stepping").or_else(|| Some(cpuid?.stepping)),
        core_type: sysfs_type
            .map(str::to_owned)
            .or_else(|| cpuid?.core_type.clone()),
        // MIDR_EL1: implementer in bits 31 to 24, part in bits 15 to 4 (Arm ARM, D24).
        implementer: midr
            .map(|midr| (midr >> 24 & 0xff) as u32)
            .or_else(|| hex("CPU implementer")),
        part: midr
            .map(|midr| (midr >> 4 & 0xfff) as u32)
            .or_else(|| hex("CPU part")),
        model_name: get("model name").or_else(|| Some(one_spaced(cpuid?.brand.as_deref()?))),
    }
}

/// Whether `cpu` is a virtual machine's.
pub fn platform(tree: &Tree, cpu: u32, cpuid: Option<&Cpuid>) -> Platform {
    if let Some(name) = cpuid.and_then(|c| c.hypervisor.as_ref()) {
        return Platform::Guest(format!("CPUID's hypervisor bit, {name}"));
    }
    let flags = cpuinfo(tree, cpu)
        .into_iter()
        .find(|(key, _)| key == "flags")
        .map(|(_, flags)| flags);
    if flags
        .as_ref()
        .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"))
    {
        return Platform::Guest("flag hypervisor in /proc/cpuinfo".to_owned());
    }
    if let Told::Is(kind) = tree.text("sys/hypervisor/type") {
        return Platform::Guest(format!("/sys/hypervisor/type, {kind}"));
    }
    if let Told::Is(kind) = tree.text("proc/device-tree/hypervisor/compatible") {
        let kind = kind.trim_end_matches('\0');
        return Platform::Guest(format!("the device tree's hypervisor, {kind}"));
    }
    // On x86 the bit is the word: DMI names makers of real machines too.
    if flags.is_some() || cpuid.is_some() {
        return Platform::BareMetal("no hypervisor bit in CPUID".to_owned());
    }
    let dmi = |file: &str| tree.text(&format!("sys/class/dmi/id/{file}"));
    let (Told::Is(vendor), product) = (dmi("sys_vendor"), dmi("product_name")) else {
        return Platform::Unknown;
    };
    let product = product.value().map_or("", String::as_str);
    let maker = [
        "QEMU",
        "KVM",
        "VMware",
        "innotek",
        "Xen",
        "Virtual",
        "Compute Engine",
    ]
    .iter()
    .any(|word| vendor.contains(word) || product.contains(word));
    // Amazon's instances without a hypervisor end in `.metal` or `.metal-SIZE`.
    let instance = vendor == "Amazon EC2" && !product.contains(".metal");
    match maker || instance {
        true => Platform::Guest(format!("DMI, {vendor} {product}")),
        false => Platform::Unknown,
    }
}

/// Who the CPU is, as facts.
pub fn identity_facts(id: &Identity, cpu: u32) -> Vec<Fact> {
    let source = match id.arch.as_str() {
        "arm64" => "MIDR_EL1 in sysfs, /proc/cpuinfo",
        _ => "/proc/cpuinfo, CPUID",
    };
    let mut facts = vec![Fact::told("CPU", cpu.to_string(), "", "as asked for")];
    let mut push = |what: &str, value: Option<String>| {
        if let Some(value) = value {
            facts.push(Fact::told(what, value, "", source));
        }
    };
    push("model name", id.model_name.clone());
    push("vendor", id.vendor.clone());
    push("family", id.family.map(|n| n.to_string()));
    push("model", id.model.map(|n| n.to_string()));
    push("stepping", id.stepping.map(|n| n.to_string()));
    push("core type", id.core_type.clone());
    push("implementer", id.implementer.map(|n| format!("{n:#x}")));
    push("part", id.part.map(|n| format!("{n:#x}")));
    facts
}

/// The state that measurements depend on. A file that is not there is a fact, not a fault.
pub fn state_facts(tree: &Tree, cpu: u32) -> Vec<Fact> {
    let text = |what: &str, unit: &str, path: &str| {
        Fact::told(what, tree.text(path).words(), unit, &format!("/{path}"))
    };
    // `always [madvise] never`: the chosen word is bracketed.
    let chosen = |what: &str, path: &str| {
        let word = tree.text(path).parse(|t| {
            let (_, rest) = t.split_once('[')?;
            Some(rest.split_once(']')?.0.to_owned())
        });
        Fact::told(what, word.words(), "", &format!("/{path}"))
    };
    let mut facts = vec![
        Fact::told(
            "CPUs online",
            list_words(&tree.online()),
            "",
            "/sys/devices/system/cpu/online",
        ),
        text("SMT", "", "sys/devices/system/cpu/smt/active"),
        text("NUMA nodes online", "", "sys/devices/system/node/online"),
        text(
            "governor",
            "",
            &format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"),
        ),
        text(
            "highest clock",
            "kHz",
            &format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq"),
        ),
        chosen(
            "transparent huge pages",
            "sys/kernel/mm/transparent_hugepage/enabled",
        ),
        text(
            "free huge pages of 2 MiB",
            "pages",
            "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
        ),
        text(
            "perf_event_paranoid",
            "",
            "proc/sys/kernel/perf_event_paranoid",
        ),
        text("load (1, 5, 15 min; tasks)", "", "proc/loadavg"),
    ];
    let folder = "sys/devices/system/cpu/vulnerabilities";
    let mut names = tree.names(folder);
    names.sort();
    for name in names {
        let state = tree.text(&format!("{folder}/{name}")).words();
        if state != "Not affected" {
            facts.push(Fact::told(
                &format!("mitigation {name}"),
                state,
                "",
                &format!("/{folder}"),
            ));
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without x86's bit, DMI tells: makers of virtual machines, and Amazon's instances but for
    /// those without a hypervisor; a maker of real machines tells nothing.
    #[test]
    fn dmi_tells_where_no_bit_does() {
        for (vendor, product, guest) in [
            ("QEMU", "KVM Virtual Machine", true),
            ("Amazon EC2", "m6g.large", true),
            ("Amazon EC2", "m6g.metal", false),
            ("Google", "Google Compute Engine", true),
            ("GIGABYTE", "R272-P30", false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let dmi = dir.path().join("sys/class/dmi/id");
            std::fs::create_dir_all(&dmi).unwrap();
            std::fs::write(dmi.join("sys_vendor"), vendor).unwrap();
            std::fs::write(dmi.join("product_name"), product).unwrap();
            let platform = platform(&Tree::new(dir.path()), 0, None);
            assert_eq!(
                matches!(platform, Platform::Guest(_)),
                guest,
                "{vendor} {product}"
            );
        }
    }
}
