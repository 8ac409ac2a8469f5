//! Two hosts and the path between them: network namespaces that exist as long as a test.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::command::{Finished, Running, run, start};
use crate::suite::{Broken, Outcome};
use crate::workspace;

/// How long anything may take.
pub const LIMIT: Duration = Duration::from_secs(120);

/// The token that both hosts know.
pub const TOKEN: &str = "a token for tests, and only for tests";

/// A key for tests, and only for tests, as `openssl genpkey -algorithm ed25519` writes it.
const KEY: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEICB9PjJVoyF9qeOqJtKMUEVK9FKcIk76izNmTl6brGM1
-----END PRIVATE KEY-----
";

/// The address of the host to which the path is measured.
pub const RIGHT: &str = "10.99.0.2";

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A host left, a host right, and a namespace between them.
pub struct Lab {
    number: u32,
}

/// A command that ends with the test.
pub struct Service(Option<Running>);

impl Service {
    /// Its process ID.
    pub fn id(&self) -> u32 {
        self.0.as_ref().map_or(0, |running| running.child.id())
    }

    /// Waits until it prints a line with these words.
    pub fn says(&mut self, words: &str) -> Outcome {
        let running = self.0.as_mut().ok_or(Broken("it has ended already".into()))?;
        while !running.next_line(LIMIT)?.contains(words) {}
        Ok(())
    }

    /// Waits for its end.
    pub fn finish(mut self, limit: Duration) -> Result<Finished, Broken> {
        let running = self.0.take().ok_or(Broken("it has ended already".into()))?;
        running.finish(limit)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(running) = &mut self.0 {
            drop(running.give_up("the test is over"));
        }
    }
}

impl Lab {
    /// A lab with interfaces for an emulator in the middle.
    pub fn new(mtu: u32) -> Result<Self, Broken> {
        let lab = Self { number: NUMBER.fetch_add(1, Ordering::Relaxed) };
        let [left, middle, right] = ["l", "m", "r"].map(|side| lab.name(side));
        for command in [
            format!("netns add {left}"),
            format!("netns add {middle}"),
            format!("netns add {right}"),
            format!(
                "link add eth netns {left} mtu {mtu} type veth peer name a netns {middle} mtu {mtu}"
            ),
            format!(
                "link add eth netns {right} mtu {mtu} type veth peer name b netns {middle} mtu {mtu}"
            ),
            format!("-n {left} addr add 10.99.0.1/24 dev eth"),
            format!("-n {right} addr add {RIGHT}/24 dev eth"),
            format!("-n {left} addr add fd99::1/64 dev eth nodad"),
            format!("-n {right} addr add fd99::2/64 dev eth nodad"),
            format!("-n {left} link set dev eth up"),
            format!("-n {right} link set dev eth up"),
            format!("-n {middle} link set dev a up"),
            format!("-n {middle} link set dev b up"),
        ] {
            ip(&command)?;
        }
        Ok(lab)
    }

    /// A lab with a bridge in the middle, which limits nothing.
    pub fn wired() -> Result<Self, Broken> {
        let lab = Self::new(1500)?;
        lab.bridge()?;
        Ok(lab)
    }

    fn bridge(&self) -> Outcome {
        let middle = self.name("m");
        ip(&format!("-n {middle} link add name bridge type bridge"))?;
        for port in ["a", "b"] {
            ip(&format!("-n {middle} link set dev {port} master bridge"))?;
        }
        ip(&format!("-n {middle} link set dev bridge up"))
    }

    /// Limits the bridge with a token bucket towards the right.
    pub fn shape(&self, rate: &str) -> Outcome {
        self.bridge()?;
        let mut command = self.there("m", "tc");
        command.args(["qdisc", "add", "dev", "b", "root", "tbf", "rate", rate]);
        command.args(["burst", "3200", "limit", "1000000"]);
        run(&mut command, LIMIT)?.expect_code(0).map(drop)
    }

    fn name(&self, side: &str) -> String {
        format!("et-e2e-{}-{}{side}", std::process::id(), self.number)
    }

    /// A command in one of the namespaces.
    fn there(&self, side: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(side)]).arg(program).stdin(Stdio::null());
        command
    }

    /// Emulates a path between both.
    pub fn emulate(&self, told: &[&str]) -> Result<Service, Broken> {
        let program = workspace::binary().with_file_name("eigentime-path");
        let mut command = self.there("m", program);
        let mut running = start(command.args(told).args(["--duration", "120s", "a", "b"]))?;
        let said = running.next_line(LIMIT)?;
        if said != "ready" {
            let why = format!("it said '{said}'");
            return Err(running.give_up(why));
        }
        Ok(Service(Some(running)))
    }

    /// Blocks UDP to this host.
    pub fn deafen(&self, side: &str) -> Outcome {
        let host = self.name(side);
        // These rules come before the one for the host itself, which is always the first.
        for rule in
            ["add pref 2 lookup local", "add pref 1 iif eth ipproto udp blackhole", "del pref 0"]
        {
            ip(&format!("-n {host} rule {rule}"))?;
        }
        Ok(())
    }

    /// Starts a server on the right.
    pub fn serve(&self, options: &[&str]) -> Result<Service, Broken> {
        self.serve_at_all(options).map(|(server, _)| server)
    }

    /// Starts a server with a key of its own, and returns its fingerprint.
    pub fn serve_with_key(&self) -> Result<(Service, String), Broken> {
        let file = std::env::temp_dir().join(self.name("key"));
        std::fs::write(&file, KEY)?;
        let served = self.serve_at_all(&["--key", &file.display().to_string()]);
        std::fs::remove_file(&file)?;
        let (server, said) = served?;
        let said: serde_json::Value = serde_json::from_str(&said)?;
        let fingerprint = said["fingerprint"].as_str().ok_or(Broken("no fingerprint".into()))?;
        Ok((server, fingerprint.to_owned()))
    }

    /// Starts a server, and returns its first output.
    fn serve_at_all(&self, options: &[&str]) -> Result<(Service, String), Broken> {
        let mut command = self.there("r", workspace::binary());
        command.args(["bandwidth", "serve", "--json"]).args(options).env("EIGENTIME_TOKEN", TOKEN);
        let mut running = start(&mut command)?;
        let said = running.next_line(LIMIT)?.to_owned();
        if !said.contains("listening") {
            let why = format!("it said '{said}'");
            return Err(running.give_up(why));
        }
        Ok((Service(Some(running)), said))
    }

    /// A client on the left.
    pub fn client(&self, host: &str) -> Command {
        let mut command = self.there("l", workspace::binary());
        command.args(["bandwidth", "measure", host]).env("EIGENTIME_TOKEN", TOKEN);
        command
    }

    /// Runs `measure`.
    pub fn measure(&self, options: &[&str]) -> Result<Finished, Broken> {
        run(self.client(RIGHT).args(options), LIMIT)
    }

    /// The settings of the interfaces in the middle.
    pub fn interfaces(&self) -> Result<String, Broken> {
        let mut all = String::new();
        for port in ["a", "b"] {
            let mut command = self.there("m", "ip");
            let ended = run(command.args(["-d", "link", "show", "dev", port]), LIMIT)?;
            all.push_str(&ended.expect_code(0)?.output());
        }
        Ok(all)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for side in ["l", "m", "r"] {
            // Namespaces that could not be made cannot be removed.
            let _ = ip(&format!("netns del {}", self.name(side)));
        }
    }
}

fn ip(command: &str) -> Outcome {
    let mut ip = Command::new("ip");
    run(ip.args(command.split(' ')), LIMIT)?.expect_code(0).map(drop)
}
