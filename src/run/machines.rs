//! The machines of a run: catalogue entries by name, and the host, read and measured once.

use std::path::Path;

use super::{Row, RunError, Sink, input};
use crate::calibrate::calibrate;
use crate::machine::host;
use crate::machine::{Calibration, Machine, MachineError, catalogue};
use crate::native::affinity;

/// The name by which experiments ask for the host.
pub const HOST: &str = "host";

/// What a run needs.
pub struct Asked {
    /// Points on real memory.
    pub native: bool,
    /// Machines of the model's points, by name.
    pub models: Vec<String>,
}

/// The host as a run knows it.
#[derive(Clone, Debug)]
pub struct Host {
    /// Name in rows: `host:<model name>`.
    pub name: String,
    /// The CPU that single-core work runs on.
    pub cpu: u32,
    /// What was measured.
    pub calibration: Calibration,
    /// Its machine; `None` where neither sysfs nor CPUID tells its caches.
    pub machine: Option<Machine>,
}

/// All machines of a run.
pub struct Machines {
    /// Present where a point runs on it, or is modelled after it.
    pub host: Option<Host>,
    named: Vec<(String, Machine)>,
}

/// The catalogue entry or file called `name`.
pub fn find(name: &str) -> Result<Machine, RunError> {
    catalogue::find(name).map_err(input)
}

impl Machines {
    /// Read what is asked for; machines and what there is to say about them go to `sink`.
    pub fn new(asked: &Asked, sink: &mut Sink<'_>) -> Result<Machines, RunError> {
        let mut machines = Machines {
            host: None,
            named: Vec::new(),
        };
        let model_of_host = asked.models.iter().any(|m| m == HOST);
        if asked.native || model_of_host {
            machines.host = Some(read_host(asked, model_of_host, sink)?);
        }
        for name in asked.models.iter().filter(|m| *m != HOST) {
            if machines.named.iter().all(|(known, _)| known != name) {
                let machine = find(name)?;
                sink(Row::Machine(Box::new(machine.clone())))?;
                machines.named.push((name.clone(), machine));
            }
        }
        Ok(machines)
    }

    /// The machine that a point names; `None` for a host whose caches nobody tells.
    pub fn of(&self, name: &str) -> Option<&Machine> {
        if name == HOST {
            return self.host.as_ref()?.machine.as_ref();
        }
        self.named
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, machine)| machine)
    }

    /// Whether huge pages of this machine are small ones to its TLB.
    pub fn huge_pages_split(&self, name: &str) -> bool {
        name == HOST
            && self
                .host
                .as_ref()
                .is_some_and(|h| h.calibration.huge_pages_split == Some(true))
    }
}

fn read_host(asked: &Asked, modelled: bool, sink: &mut Sink<'_>) -> Result<Host, RunError> {
    let cpu = affinity::choose(1).map_err(|e| RunError::Nothing(e.to_string()))?[0];
    let mut host = match host::read(Path::new("/"), cpu) {
        Ok(host) => host,
        Err(error) => return without_caches(&error, asked, modelled, cpu, sink),
    };
    let calibration = calibrate(cpu, &host.machine.caches, false);
    host.apply(&calibration);
    for sentence in host.disagreements.iter().chain(&host.notes) {
        sink(Row::Note(format!("host: {sentence}")))?;
    }
    sink(Row::Machine(Box::new(host.machine.clone())))?;
    let name = host.machine.name.clone();
    Ok(Host {
        name,
        cpu,
        calibration,
        machine: Some(host.machine),
    })
}

/// The host is no machine for the model; what does not need one goes on.
fn without_caches(
    error: &MachineError,
    asked: &Asked,
    modelled: bool,
    cpu: u32,
    sink: &mut Sink<'_>,
) -> Result<Host, RunError> {
    let others = asked.native || asked.models.iter().any(|m| m != HOST);
    if modelled && !others {
        return Err(RunError::Nothing(error.to_string()));
    }
    sink(Row::Note(format!("host: {error}")))?;
    let calibration = calibrate(cpu, &[], false);
    Ok(Host {
        name: "host:unknown".into(),
        cpu,
        calibration,
        machine: None,
    })
}
