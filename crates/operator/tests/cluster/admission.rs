//! What the webhook lets in, gives, and refuses.

use std::fs;

use super::parts::{controller, part};
use super::server::{Running, Server, port, until};

/// A webhook that the API server calls.
fn webhook(server: &Server) -> Running {
    let certificate = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let directory = server.file("certificate");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("tls.crt"), certificate.cert.pem()).unwrap();
    fs::write(directory.join("tls.key"), certificate.signing_key.serialize_pem()).unwrap();
    let address = format!("127.0.0.1:{}", port());
    let mut command = part(server, "webhook");
    command.args(["webhook", "--listen", &address, "--certificates"]).arg(directory);
    let running = Running(command.spawn().unwrap());
    until("the webhook listens", || std::net::TcpStream::connect(&address).ok());
    server.apply(
        "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: eigentime}, handler: eigentime, \
         overhead: {podFixed: {memory: 16Mi}}}",
    );
    let bundle = base64(certificate.cert.pem().as_bytes());
    for (kind, path, group, resource, version) in [
        ("MutatingWebhookConfiguration", "pods", "", "pods", "v1"),
        ("ValidatingWebhookConfiguration", "timelines", "eigentime.io", "timelines", "v1alpha1"),
    ] {
        // Because of the overhead that a pod gets with its RuntimeClass, it is asked about the pod once more.
        let again = match kind {
            "MutatingWebhookConfiguration" => "reinvocationPolicy: IfNeeded, ",
            _ => "",
        };
        server.apply(&format!(
            "{{apiVersion: admissionregistration.k8s.io/v1, kind: {kind}, metadata: {{name: eigentime}}, \
             webhooks: [{{name: {path}.eigentime.io, sideEffects: None, admissionReviewVersions: [v1], \
             failurePolicy: Fail, {again}clientConfig: {{url: 'https://{address}/{path}', caBundle: {bundle}}}, \
             rules: [{{apiGroups: ['{group}'], apiVersions: [{version}], resources: [{resource}], \
             operations: [CREATE, UPDATE]}}]}}]}}"
        ));
    }
    running
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn timeline(name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: eigentime.io/v1alpha1, kind: Timeline, metadata: {{name: {name}, namespace: default}}, \
         spec: {{{spec}}}}}"
    )
}

fn pod(name: &str, metadata: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default, {metadata}}}, \
         spec: {{containers: [{{name: c, image: busybox, {spec}}}]}}}}"
    )
}

#[test]
fn pods_are_let_into_their_timeline_or_refused() {
    let server = Server::start();
    let _webhook = webhook(&server);
    let shop = "selector: {matchLabels: {app: shop}}";
    // The webhook decides once the API server has heard of it.
    until("a timeline is refused by the webhook", || {
        let bad = timeline("bad", "rate: '0'");
        let told =
            server.try_kubectl(&["apply", "--server-side", "--dry-run=server", "-f", "-"], &bad);
        told.err().filter(|told| told.contains("spec.rate") && told.contains("cannot be zero"))
    });
    server.apply(&timeline("shop", shop));
    let uid = server.get("timeline", "shop")["metadata"]["uid"].as_str().unwrap().to_owned();
    let labels = "labels: {app: shop}";
    let admitted = until("a pod is a member", || {
        server.apply(&pod("one", labels, ""));
        let one = server.get("pod", "one");
        let is_member = one["spec"]["runtimeClassName"] == "eigentime";
        if !is_member {
            server.kubectl(&["delete", "pod", "one", "--now"]);
        }
        is_member.then_some(one)
    });
    let annotations = &admitted["metadata"]["annotations"];
    assert_eq!(annotations["io.eigentime.timeline"], format!("k8s-{uid}"));
    assert_eq!(annotations["io.eigentime.existing"], "true");
    assert_eq!(admitted["spec"]["overhead"]["memory"], "16Mi");
    server.apply(&pod("other", "labels: {app: other}", ""));
    assert!(server.get("pod", "other")["spec"]["runtimeClassName"].is_null());
    for (metadata, spec, reason) in [
        ("labels: {app: shop}, annotations: {io.eigentime.rate: '2'}", "", "io.eigentime.rate"),
        (
            labels,
            "env: [{name: FAKETIME, value: '+1d'}]",
            "container c brings clocks of its own (FAKETIME)",
        ),
        (labels, "env: [{name: LD_PRELOAD, value: /lib/libfaketime.so.1}]", "LD_PRELOAD"),
    ] {
        let told = server.refused(&pod("two", metadata, spec));
        assert!(told.contains(reason), "{told}");
    }
    let metadata = format!("labels: {{}}, annotations: {{io.eigentime.timeline: 'k8s-{uid}'}}");
    let told = server.refused(&pod("two", &metadata, ""));
    assert!(told.contains("whoever that selects is given it"), "{told}");
    // A pod has one timeline.
    server.kubectl(&["label", "pod", "other", "also=both"]);
    server.pod("placed", "a");
    let told = until("a timeline that selects the same pods is refused", || {
        let again = timeline("again", shop);
        server.try_kubectl(&["apply", "--server-side", "--dry-run=server", "-f", "-"], &again).err()
    });
    assert!(told.contains("pod placed is on timeline shop already"), "{told}");
    let told = server.refused(&timeline(
        "near",
        "selector: {matchExpressions: [{key: app, operator: Near, values: [shop]}]}",
    ));
    assert!(told.contains("spec.selector"), "{told}");
    // What a namespace says of all.
    server.kubectl(&["annotate", "namespace", "default", "eigentime.io/timeline=shop"]);
    server.kubectl(&["annotate", "namespace", "default", "eigentime.io/max-timelines=1"]);
    let told = until("the quota is known", || {
        let another = timeline("another", "rate: '2'");
        server
            .try_kubectl(&["apply", "--server-side", "--dry-run=server", "-f", "-"], &another)
            .err()
    });
    assert!(told.contains("eigentime.io/max-timelines") && told.contains("allows 1"), "{told}");
    server.apply(&pod("default", "labels: {}", ""));
    assert_eq!(server.get("pod", "default")["spec"]["runtimeClassName"], "eigentime");
    // It counts on its node, though no selector selects it.
    let _controller = controller(&server);
    let bind = ["create", "--raw=/api/v1/namespaces/default/pods/default/binding", "--filename=-"];
    let binding = r#"{"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "default"},
        "target": {"kind": "Node", "name": "b"}}"#;
    server.try_kubectl(&bind, binding).unwrap();
    until("both pods that are on nodes are members", || {
        let status = server.get("timeline", "shop")["status"].clone();
        let nodes = status["nodes"].as_array()?.iter().map(|node| node["name"].clone());
        (status["members"] == 2).then(|| assert_eq!(nodes.collect::<Vec<_>>(), ["a", "b"]))
    });
}
