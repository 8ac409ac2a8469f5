//! The interrupts of a system, and the file in which it is written down what was changed.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::record::{Changed, Cpus, Owner, Record, Want, parse, print};

/// Where things are.
#[derive(Clone, Debug)]
pub struct System {
    /// A folder for each interrupt, see the kernel's Documentation/core-api/irq/irq-affinity.rst.
    pub interrupts: PathBuf,
    /// The processors that are online.
    pub online: PathBuf,
    /// Where the record is kept; a folder that does not outlive a boot.
    pub run: PathBuf,
}

pub const RECORD: &str = "interrupts";
pub const LIST: &str = "smp_affinity_list";
/// Of the processors in the list, those that the kernel has chosen.
const EFFECTIVE: &str = "effective_affinity_list";

impl System {
    pub fn here() -> Self {
        Self {
            interrupts: "/proc/irq".into(),
            online: "/sys/devices/system/cpu/online".into(),
            run: "/run/eigentime".into(),
        }
    }

    pub fn repair(&self) -> io::Result<usize> {
        if !self.run.join(RECORD).exists() {
            return Ok(0);
        }
        let mut before = 0;
        self.change(|record| before = record.changed.len())?;
        Ok(before.saturating_sub(self.read()?.changed.len()))
    }

    /// That these want nothing any more.
    pub fn leave(&self, gone: &[Owner]) -> io::Result<()> {
        if self.run.exists() {
            self.change(|record| record.owners.retain(|owner| !gone.contains(owner)))?;
        }
        Ok(())
    }

    /// The folder of the record.
    pub fn folder(&self) -> io::Result<File> {
        let mut folder = DirBuilder::new();
        let made = folder.recursive(true).mode(0o700).create(&self.run);
        made.map_err(|error| named(error, &self.run))?;
        File::open(&self.run).map_err(|error| named(error, &self.run))
    }

    /// Changes who wants what, and does what follows; those who are gone want nothing. The last
    /// refusal, if some interrupts were not to be moved.
    pub fn change(&self, change: impl FnOnce(&mut Record)) -> io::Result<Option<io::Error>> {
        let folder = self.folder()?;
        // Until it is closed. Whoever dies gives it back.
        flock(&folder, FlockOperation::LockExclusive)?;
        let mut record = self.read()?;
        record.owners.retain(Owner::lives);
        change(&mut record);
        let wanted = self.wanted(&record)?;
        let is_mine = |(number, changed): &(&u32, &Changed)| {
            self.cpus(**number).is_ok_and(|now| now != changed.now)
        };
        let to_do: Vec<_> = wanted.iter().filter(is_mine).map(|(n, c)| (*n, c.clone())).collect();
        record.changed = wanted;
        // Before anything is changed: what is written down and not done does no harm.
        self.write(&record)?;
        let mut refused = None;
        for (number, changed) in to_do {
            if let Err(error) = fs::write(self.list(number), print(&changed.now)) {
                refused = Some(named(error, &self.list(number)));
                record.changed.remove(&number);
            }
        }
        record.changed.retain(|_, changed| changed.was != changed.now);
        self.write(&record)?;
        Ok(refused)
    }

    /// Where each interrupt is to be that is or was touched: also those that go back.
    fn wanted(&self, record: &Record) -> io::Result<BTreeMap<u32, Changed>> {
        let online = parse(&fs::read_to_string(&self.online)?);
        let (mut taken, mut brought) = (Cpus::new(), BTreeMap::new());
        for owner in &record.owners {
            match owner.want {
                Want::Off(cpu) => drop(taken.insert(cpu)),
                Want::Onto { interrupt, cpu } => drop(brought.insert(interrupt, cpu)),
            }
        }
        let mut wanted = BTreeMap::new();
        for entry in fs::read_dir(&self.interrupts)? {
            let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let Ok(now) = self.cpus(number) else { continue };
            // What somebody else has set since is theirs.
            let known = record.changed.get(&number).filter(|changed| changed.now == now);
            let was = known.map_or(&now, |changed| &changed.was).clone();
            let alone = brought.get(&number).filter(|cpu| online.contains(cpu));
            let asked = alone.map_or_else(|| was.clone(), |cpu| [*cpu].into());
            let mut there: Cpus = asked.difference(&taken).copied().collect();
            if there.is_empty() {
                there = online.difference(&taken).copied().collect();
            }
            if there.is_empty() {
                there = asked;
            }
            if known.is_some() || there != now {
                wanted.insert(number, Changed { was, now: there });
            }
        }
        Ok(wanted)
    }

    /// The interrupts that come to a processor.
    pub fn handled_on(&self, cpu: usize) -> Vec<u32> {
        let entries = fs::read_dir(&self.interrupts).into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let lists = |list: PathBuf| fs::read_to_string(list).ok().map(|list| parse(&list));
        let comes = |number: &u32| {
            // The effective list alone follows only when the interrupt comes the next time.
            let effective = self.interrupts.join(number.to_string()).join(EFFECTIVE);
            let there = |cpus: Option<Cpus>| cpus.is_none_or(|cpus| cpus.contains(&cpu));
            there(lists(self.list(*number))) && there(lists(effective))
        };
        let mut stay: Vec<_> = numbers.filter(comes).collect();
        stay.sort_unstable();
        stay
    }

    pub fn list(&self, number: u32) -> PathBuf {
        self.interrupts.join(number.to_string()).join(LIST)
    }

    pub fn cpus(&self, number: u32) -> io::Result<Cpus> {
        Ok(parse(&fs::read_to_string(self.list(number))?))
    }

    fn read(&self) -> io::Result<Record> {
        match fs::read_to_string(self.run.join(RECORD)) {
            Ok(text) => Ok(Record::parse(&text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Record::default()),
            Err(error) => Err(named(error, &self.run.join(RECORD))),
        }
    }

    fn write(&self, record: &Record) -> io::Result<()> {
        let path = self.run.join(RECORD);
        if record.owners.is_empty() && record.changed.is_empty() {
            return match fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let new = self.run.join(format!("{RECORD}.new"));
        fs::write(&new, record.print()).and_then(|()| fs::rename(&new, &path))
    }
}

fn named(error: io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
