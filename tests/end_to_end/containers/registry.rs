//! An image registry on the loopback interface.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use crate::command::run;
use crate::containers::commandline::LIMIT;
use crate::containers::daemons::Daemon;
use crate::containers::host;
use crate::containers::spec::Image;
use crate::suite::Broken;
use crate::workspace;

/// A registry that listens.
#[derive(Debug)]
pub struct Registry {
    address: SocketAddr,
}

static REGISTRY: OnceLock<Result<Registry, Broken>> = OnceLock::new();
static DAEMON: Mutex<Option<Daemon>> = Mutex::new(None);

/// Returns the registry, started at the first request.
pub fn registry() -> Result<&'static Registry, Broken> {
    host::remember();
    REGISTRY.get_or_init(start).as_ref().map_err(Clone::clone)
}

fn start() -> Result<Registry, Broken> {
    let directory = workspace::scratch()?;
    // It is closed again, for the registry to use the port.
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let settings = format!(
        "version: 0.1\n\
         log: {{ level: warn }}\n\
         storage: {{ filesystem: {{ rootdirectory: {} }} }}\n\
         http: {{ addr: \"{address}\" }}\n",
        directory.join("images").display()
    );
    let file = directory.join("registry.yml");
    fs::write(&file, settings)?;
    let mut command = Command::new("docker-registry");
    command.arg("serve").arg(&file);
    let mut daemon = Daemon::start(&command, &directory.join("log"))?;
    daemon.await_socket(|| -> io::Result<()> { TcpStream::connect(address).map(drop) })?;
    *DAEMON.lock().map_err(|error| Broken(error.to_string()))? = Some(daemon);
    Ok(Registry { address })
}

/// Ends it, if it was started.
pub fn end() -> Result<(), Broken> {
    match DAEMON.lock().map_err(|error| Broken(error.to_string()))?.take() {
        Some(mut daemon) => daemon.stop(),
        None => Ok(()),
    }
}

impl Registry {
    /// Pushes an image, and returns its name there.
    pub fn push(&self, image: Image, name: &str) -> Result<String, Broken> {
        let reference = format!("{}/{name}:1", self.address);
        let mut command = Command::new("skopeo");
        command.args(["copy", "--quiet", "--dest-tls-verify=false"]);
        command.arg(format!("docker-archive:{}", image.made()?.archive.display()));
        run(command.arg(format!("docker://{reference}")), LIMIT)?.expect_code(0)?;
        Ok(reference)
    }
}
