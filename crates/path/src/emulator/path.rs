//! A path, from its settings to its summary.

use std::sync::atomic::AtomicBool;

use eigentime_clock::sleeper::{self, Request, Sleeper};

use super::carry::Running;
use super::host::{End, Error, Port};
use super::settings::Settings;
use super::summary::{EndSummary, Summary, WaySummary};
use super::truth::{self, Unwritten, Writer};
use eigentime_bandwidth::BitRate;

/// Why a path has failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An error of an end.
    #[error(transparent)]
    End(#[from] Error),
    /// An error in writing the truth.
    #[error(transparent)]
    Truth(#[from] Unwritten),
    /// A request to the system is invalid.
    #[error(transparent)]
    Request(#[from] sleeper::Error),
    /// It cannot be pinned to the requested processor.
    #[error("{0}")]
    Processor(String),
    /// An interface does not accept packets of the requested length.
    #[error(
        "an MTU of {asked} is more than {end} takes, which is {takes}: ask for less, or \
         `ip link set dev {} mtu {asked}`", end.interface
    )]
    Mtu {
        /// The requested MTU.
        asked: u32,
        /// The end that does not accept it.
        end: End,
        /// The MTU of that end.
        takes: u32,
    },
    /// The queue is shorter than a single packet.
    #[error(
        "a queue of {bytes} bytes has no room for a packet of {mtu}, which is the path's MTU: make \
         it longer (--queue)"
    )]
    Queue {
        /// Its length.
        bytes: u64,
        /// The path's MTU.
        mtu: u32,
    },
}

/// A path that is ready to run.
#[derive(Debug)]
pub struct Path {
    settings: Settings,
    ports: [Port; 2],
    writer: Option<Writer>,
}

impl Path {
    /// Opens both ends.
    ///
    /// # Errors
    /// If one cannot be used, or the truth cannot be written.
    pub fn open(mut settings: Settings) -> Result<Self, Failure> {
        let [first, second] = &settings.ends;
        // What arrives at one end is held there until it is sent.
        let ports = [
            Port::open(first, settings.ways[0].under_way())?,
            Port::open(second, settings.ways[1].under_way())?,
        ];
        let least = if ports[0].mtu() <= ports[1].mtu() { &ports[0] } else { &ports[1] };
        let takes = least.mtu();
        for way in &mut settings.ways {
            let mtu = *way.mtu.get_or_insert(takes);
            if mtu > takes {
                return Err(Failure::Mtu { asked: mtu, end: least.end().clone(), takes });
            }
            let bytes = way.queue.bytes(way.capacity);
            if bytes < mtu.into() {
                return Err(Failure::Queue { bytes, mtu });
            }
        }
        let writer = settings.truth.as_deref().map(Writer::create).transpose()?;
        Ok(Self { settings, ports, writer })
    }

    /// Runs until its time is over or it is told to stop. Once running, calls `ready` with its
    /// start time on CLOCK_MONOTONIC in nanoseconds.
    ///
    /// # Errors
    /// If an end goes away, or the truth cannot be written.
    pub fn run(mut self, stop: &AtomicBool, ready: impl FnOnce(i64)) -> Result<Summary, Failure> {
        let settings = &self.settings;
        let mut sleeper = asked(settings)?;
        let lost = sleeper.degradation();
        if let Some(pinned) = lost.iter().find(|it| matches!(it.what, Request::Pin(_))) {
            return Err(Failure::Processor(pinned.to_string()));
        }
        let is_realtime = settings.realtime.is_some()
            && !lost.iter().any(|it| matches!(it.what, Request::Realtime(_)));
        let not_granted = lost.iter().map(ToString::to_string).collect();
        let dropped_before = self.ports.each_mut().map(Port::dropped_by_interface);

        let mut running = Running::begin(
            &mut self.ports,
            &settings.ways,
            self.writer.as_ref(),
            settings.truth_every,
            &mut sleeper,
            is_realtime,
        );
        ready(running.began_ns());
        let carried = running.carry(settings.duration, stop);
        let ran = running.end();
        // Privileges are dropped before waiting for the file.
        drop(sleeper);
        if let Some(writer) = self.writer {
            let (punctuality, on_its_way) = (ran.punctuality, ran.on_its_way);
            writer.put(truth::Line::End { punctuality, on_its_way });
            writer.finish()?;
        }
        carried?;

        let ends = [0, 1].map(|end: usize| {
            let port = &mut self.ports[end];
            let dropped = port.dropped_by_interface().zip(dropped_before[end]);
            EndSummary {
                end: port.end().clone(),
                switched_off: port.offloads().switched().to_vec(),
                dropped: dropped.map(|(now, before)| now.saturating_sub(before)),
            }
        });
        let [forward, back] = [0, 1].map(|way: usize| WaySummary {
            flow: ran.flows[way],
            on_its_way: ran.on_its_way[way],
            sent_per_second: BitRate::of(
                ran.flows[way].sent.bytes as f64,
                ran.time.as_nanos().max(1) as f64,
            ),
        });
        Ok(Summary {
            ends,
            seconds: ran.time.as_secs_f64(),
            forward,
            back,
            punctuality: ran.punctuality,
            paused: ran.paused,
            is_realtime,
            not_granted,
        })
    }
}

/// The requested privileges, for the calling thread.
fn asked(settings: &Settings) -> Result<Sleeper, sleeper::Error> {
    let mut requests = Sleeper::builder();
    if let Some(cpu) = settings.cpu {
        requests = requests.pin(cpu);
    }
    if let Some(priority) = settings.realtime {
        requests = requests.realtime(priority);
    }
    requests.build()
}
