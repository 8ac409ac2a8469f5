//! An API server with etcd, for one test.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long something may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// The token of the administrator.
const TOKEN: &str = "administrator";

/// A process that ends with this.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The API server.
pub struct Server {
    binaries: PathBuf,
    pub directory: TempDir,
    processes: Vec<Running>,
}

/// The directory with the programs; skips the test if there is none.
fn binaries() -> PathBuf {
    let found = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let has_all = |path: &PathBuf| {
        ["etcd", "kube-apiserver", "kubectl"].iter().all(|name| path.join(name).exists())
    };
    match found.filter(has_all) {
        Some(path) => path,
        None => skip!("etcd, kube-apiserver and kubectl in the directory $KUBEBUILDER_ASSETS"),
    }
}

/// A port that nobody has.
pub fn port() -> u16 {
    let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    free.local_addr().unwrap().port()
}

/// Waits until it is so.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(PAUSE);
    }
}

impl Server {
    /// Starts one, with the objects of the operator and two nodes.
    pub fn start() -> Self {
        let binaries = binaries();
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        let key = rcgen::KeyPair::generate().unwrap();
        fs::write(file("key.pem"), key.serialize_pem()).unwrap();
        fs::write(file("public.pem"), key.public_key_pem()).unwrap();
        fs::write(file("tokens"), format!("{TOKEN},admin,1,system:masters\n")).unwrap();
        let [client, peer, secure] = [port(), port(), port()];
        let log = |name: &str| Stdio::from(fs::File::create(file(name)).unwrap());
        let etcd = Command::new(binaries.join("etcd"))
            .arg(format!("--data-dir={}", file("etcd").display()))
            .args([
                format!("--listen-client-urls=http://127.0.0.1:{client}"),
                format!("--advertise-client-urls=http://127.0.0.1:{client}"),
                format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
                format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
                format!("--initial-cluster=default=http://127.0.0.1:{peer}"),
                "--unsafe-no-fsync".to_owned(),
            ])
            .stderr(log("etcd.log"))
            .spawn()
            .unwrap();
        let api = Command::new(binaries.join("kube-apiserver"))
            .args([
                format!("--etcd-servers=http://127.0.0.1:{client}"),
                format!("--secure-port={secure}"),
                format!("--cert-dir={}", file("certificates").display()),
                format!("--token-auth-file={}", file("tokens").display()),
                format!("--service-account-key-file={}", file("public.pem").display()),
                format!("--service-account-signing-key-file={}", file("key.pem").display()),
                "--bind-address=127.0.0.1".to_owned(),
                "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                "--authorization-mode=RBAC".to_owned(),
                "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
                "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition".to_owned(),
            ])
            .stderr(log("apiserver.log"))
            .spawn()
            .unwrap();
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: it\n\
             clusters: [{{name: it, cluster: {{server: 'https://127.0.0.1:{secure}', insecure-skip-tls-verify: true}}}}]\n\
             users: [{{name: it, user: {{token: {TOKEN}}}}}]\n\
             contexts: [{{name: it, context: {{cluster: it, user: it}}}}]\n"
        );
        fs::write(file("kubeconfig"), kubeconfig).unwrap();
        let mut server = Self { binaries, directory, processes: vec![Running(api), Running(etcd)] };
        until("the API server is ready", || {
            let ended = server.processes.iter_mut().find_map(|it| it.0.try_wait().unwrap());
            assert!(
                ended.is_none(),
                "{}",
                fs::read_to_string(server.file("apiserver.log")).unwrap()
            );
            server.try_kubectl(&["get", "--raw=/readyz"], "").ok()
        });
        until("there is a namespace", || {
            server.try_kubectl(&["get", "namespace", "default"], "").ok()
        });
        let crds = Command::new(env!("CARGO_BIN_EXE_eigentime-operator")).arg("crds").output();
        server.apply(&String::from_utf8(crds.unwrap().stdout).unwrap());
        server.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]);
        for node in ["a", "b"] {
            server.apply(&format!("{{apiVersion: v1, kind: Node, metadata: {{name: {node}}}}}"));
        }
        server.kubectl(&["create", "namespace", "eigentime-system"]);
        server
    }

    /// A file of this server's.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Where clients find how to reach it.
    pub fn kubeconfig(&self) -> PathBuf {
        self.file("kubeconfig")
    }

    /// `kubectl`, to which arguments are added.
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.binaries.join("kubectl"));
        command.arg("--kubeconfig").arg(self.kubeconfig());
        command.arg("--cache-dir").arg(Path::join(self.directory.path(), "cache"));
        command
    }

    /// What `kubectl` prints, or complains of.
    pub fn try_kubectl(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let mut command = self.command();
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        match output.status.success() {
            true => Ok(text(output.stdout)),
            false => Err(text(output.stderr)),
        }
    }

    /// The same, which must be done.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.try_kubectl(arguments, "").unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    }

    /// Applies a manifest.
    pub fn apply(&self, manifest: &str) -> String {
        let applied = self.try_kubectl(&["apply", "--server-side", "-f", "-"], manifest);
        applied.unwrap_or_else(|error| panic!("{manifest}: {error}"))
    }

    /// Why a manifest is refused.
    pub fn refused(&self, manifest: &str) -> String {
        match self.try_kubectl(&["apply", "--server-side", "-f", "-"], manifest) {
            Ok(applied) => panic!("{manifest}: {applied}"),
            Err(error) => error,
        }
    }

    /// An object.
    pub fn get(&self, kind: &str, name: &str) -> Value {
        serde_json::from_str(&self.kubectl(&["get", kind, name, "-o", "json"])).unwrap()
    }

    /// A pod that is on a node.
    pub fn pod(&self, name: &str, node: &str) {
        self.apply(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{app: shop}}}}, \
             spec: {{nodeName: {node}, containers: [{{name: c, image: busybox}}]}}}}"
        ));
    }
}
