use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::*;

const OCI: &str = "/opt/eigentime/eigentime-oci";

fn engine(name: &str) -> &'static Engine {
    ENGINES.iter().find(|engine| engine.name == name).unwrap()
}

/// The text with the entry, after checking that adding it again does nothing.
fn added(name: &str, text: &str) -> String {
    let engine = engine(name);
    let after = (engine.add)(text, OCI).unwrap();
    assert_eq!((engine.entry)(&after).unwrap().as_deref(), Some(OCI), "{after}");
    assert_eq!((engine.add)(&after, OCI).unwrap(), after);
    after
}

fn removed(name: &str, text: &str) -> String {
    let after = (engine(name).remove)(text).unwrap();
    assert_eq!((engine(name).entry)(&after).unwrap(), None, "{after}");
    after
}

mod texts {
    use super::*;

    #[test]
    fn podman_has_a_file_of_its_own() {
        let after = added("podman", &podman::fresh().unwrap());
        assert_eq!(
            after,
            "# Written by `eigentime setup podman`; `--remove` removes it.\n\
             \n\
             [engine.runtimes]\n\
             eigentime = [\"/opt/eigentime/eigentime-oci\"]\n"
        );
        assert_eq!(removed("podman", &after), podman::fresh().unwrap());
    }

    #[test]
    fn podmans_other_runtimes_stay_and_the_style_is_theirs() {
        let text = "[engine]\n\
                    # fast\n\
                    runtime = \"crun\"\n\
                    \n\
                    [engine.runtimes]\n\
                    \x20 crun = [ \"/usr/bin/crun\" ] # ours\n\
                    \n\
                    [network]\n\
                    # the end\n";
        let after = added("podman", text);
        assert_eq!(
            after,
            text.replace("# ours\n", "# ours\n  eigentime = [\"/opt/eigentime/eigentime-oci\"]\n")
        );
        assert_eq!(removed("podman", &after), text);
    }

    #[test]
    fn podmans_table_may_be_in_one_line() {
        for text in [
            "engine = { runtimes = { crun = [\"/usr/bin/crun\"] } }\n",
            "engine = { runtime = \"crun\" } # one\n[network]\n",
            "engine.runtimes.crun = [\"/usr/bin/crun\"]\n# last\n",
        ] {
            assert_eq!(removed("podman", &added("podman", text)), text);
        }
    }

    #[test]
    fn an_entry_that_points_elsewhere_is_replaced() {
        let text = "[engine.runtimes]\neigentime = [\"/old/eigentime-oci\"] # mine\n";
        assert_eq!(added("podman", text), text.replace("/old", "/opt/eigentime"));
        let text = r#"{"runtimes": {"eigentime": {"path": "/old/eigentime-oci", "runtimeArgs": ["--x"]}}}"#;
        assert_eq!(added("docker", text), text.replace("/old", "/opt/eigentime"));
        let text = r#"{"runtimes": {"eigentime": {"runtimeType": "io.containerd.kata.v2"}}}"#;
        assert!(!added("docker", text).contains("kata"));
    }

    #[test]
    fn docker_has_one_more_runtime() {
        assert_eq!(
            added("docker", "{}\n"),
            "{\n  \"runtimes\": {\n    \"eigentime\": {\n      \
             \"path\": \"/opt/eigentime/eigentime-oci\"\n    }\n  }\n}\n"
        );
        let text = "{\n    \"debug\": true,\n    \"runtimes\": {\n        \"kata\": {\n            \
                    \"path\": \"/k\"\n        }\n    },\n    \"bip\": \"10.0.0.1/8\"\n}\n";
        let after = added("docker", text);
        let entry = "        },\n        \"eigentime\": {\n            \
                     \"path\": \"/opt/eigentime/eigentime-oci\"\n        }\n    },\n";
        assert_eq!(after, text.replace("        }\n    },\n", entry));
        assert_eq!(removed("docker", &after), text);
    }

    #[test]
    fn docker_takes_an_empty_file_for_no_settings() {
        assert!(added("docker", "").contains("\"eigentime\""));
    }

    #[test]
    fn containerd_keeps_its_default_runtime() {
        let text = "version = 2\n# the end\n";
        let after = added("containerd", text);
        assert_eq!(
            after,
            r#"version = 2
# the end

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2" # eigentime setup: the default, which a table hides

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.eigentime]
runtime_type = "io.containerd.runc.v2"
pod_annotations = ["io.eigentime.*"]
container_annotations = ["io.eigentime.*"]

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.eigentime.options]
BinaryName = "/opt/eigentime/eigentime-oci"
"#
        );
        assert_eq!(removed("containerd", &after), text);
    }

    #[test]
    fn containerds_new_forms_need_the_entry_only() {
        for version in [3, 4] {
            let text = format!("version = {version}\n");
            let after = added("containerd", &text);
            assert!(after.contains(
                "[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.eigentime]"
            ));
            assert!(!after.contains("runtimes.runc]"));
            assert_eq!(removed("containerd", &after), text);
        }
        let after = added("containerd", "");
        assert!(after.contains("\n[plugins.cri.containerd.runtimes.eigentime]\n"));
    }

    #[test]
    fn containerds_runtimes_manage_control_groups_alike() {
        let text = r#"version = 2
[plugins]
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc" # as ever
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = true
# a word on what follows
[timeouts]
"#;
        let after = added("containerd", text);
        assert_eq!(after.matches("SystemdCgroup = true").count(), 2);
        assert_eq!(removed("containerd", &after), text);
    }

    #[test]
    fn a_default_runtime_beside_others_stays() {
        let after = added("containerd", "version = 2\n");
        let kata = "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.kata]\n\
                    runtime_type = \"io.containerd.kata.v2\"\n";
        let left = removed("containerd", &format!("{after}\n{kata}"));
        assert!(left.contains("runtimes.runc]") && left.contains(kata), "{left}");
    }

    #[test]
    fn comments_above_an_entry_stay() {
        let text = "[network]\n\n# for tests\n\n[engine.runtimes]\neigentime = [\"/x\"]\n\n[x]\n";
        assert_eq!(removed("podman", text), "[network]\n\n# for tests\n\n[x]\n");
    }

    #[test]
    fn what_is_malformed_is_said_with_its_place() {
        let cases = [
            ("podman", "[engine]\nruntime = \"crun\n", 2, 16),
            ("podman", "a = 1\nä = 2\n", 2, 1),
            ("docker", "{\n  \"debug\": true\n  \"bip\": 1\n}", 2, 16),
            ("docker", "{} {}", 1, 4),
            ("docker", "{\"a\": 1,}", 1, 8),
            ("containerd", "version = \n", 1, 11),
        ];
        for (name, text, at_line, at_column) in cases {
            match (engine(name).add)(text, OCI) {
                Err(Unusable::Malformed { line, column, .. }) => {
                    assert_eq!((line, column), (at_line, at_column), "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
            assert!((engine(name).remove)(text).is_err());
        }
    }

    #[test]
    fn other_things_in_the_place_of_a_table_are_refused() {
        let no_table = |name: &str| Err(Unusable::NoTable(name.to_owned()));
        assert_eq!((engine("podman").add)("engine = 1", OCI), no_table("engine"));
        assert_eq!((engine("docker").add)("[]", OCI), no_table("the whole file"));
        assert_eq!((engine("docker").add)(r#"{"runtimes": []}"#, OCI), no_table("runtimes"));
        let version = |shown: &str| Err(Unusable::Version { found: shown.to_owned(), newest: 4 });
        assert_eq!((engine("containerd").add)("version = 9", OCI), version("9"));
        assert_eq!((engine("containerd").add)("version = \"2\"", OCI), version("\"2\""));
    }

    /// Pieces that can be combined in any order.
    fn pieces() -> impl Strategy<Value = Vec<&'static str>> {
        Just(vec![
            "# a comment\n",
            "\n",
            "\n# two\n# lines\n\n",
            "[network]\n  # inside\n  a = [\n    1, # one\n  ]\n",
            "[engine.runtimes]\ncrun = [ '/usr/bin/crun' ]\n",
            "[plugins.\"io.containerd.grpc.v1.cri\".cni]\n  bin_dir = \"/usr/lib/cni\"\n",
            "[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.kata]\nruntime_type = 'k'\n",
            "  [timeouts]\n  \"x.y\" = \"2s\"   # spaced\n",
            "[[streams]]\nname = \"a\"\n\n[[streams]]\nname = \"b\"\n",
        ])
        .prop_shuffle()
        .prop_flat_map(|pieces| {
            let count = 0..=pieces.len();
            count.prop_map(move |count| pieces[..count].to_vec())
        })
    }

    proptest! {
        #[test]
        fn what_is_added_to_toml_can_be_taken_out(
            pieces in pieces(),
            windows: bool,
            engine in prop_oneof![Just("podman"), Just("containerd")],
        ) {
            let text = format!("version = 2\n{}", pieces.concat());
            let text = if windows { text.replace('\n', "\r\n") } else { text };
            prop_assert_eq!(removed(engine, &added(engine, &text)), text);
        }

        #[test]
        fn what_is_added_to_json_can_be_taken_out(
            members in Just(vec![
                r#""debug": true"#,
                r#""log-opts": {"max-size": "10m"}"#,
                r#""dns": [ "10.0.0.1",  "10.0.0.2" ]"#,
                r#""ünicode": "\u00e9""#,
            ]).prop_shuffle(),
            runtimes in prop_oneof![
                Just(None),
                Just(Some("\"runtimes\": {\n    \"kata\": { \"path\": \"/k\" }\n  }")),
            ],
            indent in prop_oneof![Just("  "), Just("    "), Just("\t")],
        ) {
            let members: Vec<_> = members.into_iter().chain(runtimes).collect();
            let text = format!("{{\n{indent}{}\n}}\n", members.join(&format!(",\n{indent}")));
            prop_assert_eq!(removed("docker", &added("docker", &text)), text);
        }
    }
}

mod files {
    use super::*;

    /// A folder for one test.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("eigentime-setup-{}-{number}", process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir(&folder).unwrap();
            Self(folder)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            let mut names: Vec<_> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn add(name: &str, file: &Path) -> Result<Plan, Error> {
        plan(engine(name), file, Action::Add(Path::new(OCI)))
    }

    fn remove(name: &str, file: &Path) -> Plan {
        plan(engine(name), file, Action::Remove).unwrap()
    }

    #[test]
    fn a_file_that_was_not_there_is_made_and_removed() {
        let folder = Folder::new();
        let file = folder.0.join("conf.d/eigentime.conf");
        let plan = add("podman", &file).unwrap();
        assert!(plan.changes() && plan.diff().starts_with("--- /dev/null\n+++ /"));
        assert_eq!(plan.carry_out().unwrap(), None);
        assert_eq!(entry(engine("podman"), &file).unwrap().as_deref(), Some(Path::new(OCI)));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
        assert!(!add("podman", &file).unwrap().changes());

        let plan = remove("podman", &file);
        assert_eq!(plan.after, None);
        assert!(plan.carry_out().unwrap().is_none() && !file.exists());
        assert!(!remove("podman", &file).changes());
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 0);
    }

    #[test]
    fn a_script_trusts_the_environment_and_goes_without_a_trace() {
        let folder = Folder::new();
        let file = folder.0.join("daemon.json");
        let write = |runtime| trust::plan(&file, runtime).unwrap().carry_out().unwrap();
        let script = trust::script(&file);
        write(Some(Path::new(OCI)));
        let text = fs::read_to_string(&script).unwrap();
        assert!(text.contains("exec '/opt/eigentime/eigentime-oci' --eigentime-trust-environment"));
        assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o755);
        assert!(!trust::plan(&file, Some(Path::new(OCI))).unwrap().changes());
        write(None);
        write(None);
        assert!(folder.names().is_empty());
    }

    #[test]
    fn the_letter_of_what_was_there_comes_back() {
        let folder = Folder::new();
        let file = folder.0.join("daemon.json");
        // Removing only the entry would change each of these.
        for text in ["{ }", "{\"runtimes\": {}, \"debug\":true}", "\n\n{}"] {
            fs::write(&file, text).unwrap();
            add("docker", &file).unwrap().carry_out().unwrap();
            remove("docker", &file).carry_out().unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
    }

    #[test]
    fn backups_are_numbered_and_none_is_written_twice_or_without_need() {
        let folder = Folder::new();
        let file = folder.0.join("daemon.json");
        let names =
            [".before-eigentime", ".before-eigentime.1"].map(|end| format!("daemon.json{end}"));
        fs::write(&file, "{}").unwrap();
        for _ in 0..2 {
            let backup = add("docker", &file).unwrap().carry_out().unwrap().unwrap();
            assert_eq!(backup, folder.0.join(&names[0]));
            // The restored text is in the first one.
            assert_eq!(remove("docker", &file).carry_out().unwrap(), None);
        }
        fs::write(&file, "{\"debug\": true}").unwrap();
        add("docker", &file).unwrap().carry_out().unwrap();
        assert_eq!(fs::read_to_string(folder.0.join(&names[0])).unwrap(), "{}");
        assert_eq!(fs::read_to_string(folder.0.join(&names[1])).unwrap(), "{\"debug\": true}");
        let [zero, one] = names;
        assert_eq!(folder.names(), ["daemon.json".to_owned(), zero, one]);
    }

    #[test]
    fn mode_owner_and_link_stay() {
        let folder = Folder::new();
        let (file, link) = (folder.0.join("real.json"), folder.0.join("daemon.json"));
        fs::write(&file, "{}").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(12), Some(34)).unwrap();
        }
        let before = fs::metadata(&file).unwrap();
        symlink("real.json", &link).unwrap();
        let backup = add("docker", &link).unwrap().carry_out().unwrap().unwrap();
        assert_eq!(backup.file_name().unwrap(), "real.json.before-eigentime");
        assert!(link.is_symlink());
        for written in [&file, &backup] {
            let after = fs::metadata(written).unwrap();
            let shape = |of: &fs::Metadata| (of.mode(), of.uid(), of.gid());
            assert_eq!(shape(&after), shape(&before));
        }
        assert_eq!(folder.names().len(), 3);

        let nowhere = folder.0.join("nowhere.json");
        symlink("missing", &nowhere).unwrap();
        assert!(matches!(add("docker", &nowhere), Err(Error::Dangling(_))));
    }

    #[test]
    fn a_file_that_has_changed_meanwhile_is_left_alone() {
        let folder = Folder::new();
        let file = folder.0.join("daemon.json");
        let plan = add("docker", &file).unwrap();
        fs::write(&file, "{}").unwrap();
        assert!(matches!(plan.carry_out(), Err(Error::Changed(_))));
        assert_eq!(folder.names(), ["daemon.json"]);
    }

    #[test]
    fn the_default_runtime_is_not_taken_away() {
        let folder = Folder::new();
        let file = folder.0.join("config");
        let texts = [
            ("podman", "[engine]\nruntime = \"eigentime\"\n"),
            ("docker", "{\"default-runtime\": \"eigentime\"}"),
            (
                "containerd",
                "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd]\n\
                 default_runtime_name = 'eigentime'\n",
            ),
        ];
        for (name, text) in texts {
            fs::write(&file, text).unwrap();
            add(name, &file).unwrap().carry_out().unwrap();
            let refused = plan(engine(name), &file, Action::Remove).unwrap_err().to_string();
            assert!(refused.contains("eigentime is the default runtime there"), "{refused}");
        }
    }

    #[test]
    fn errors_name_the_file_the_place_and_the_way_out() {
        let folder = Folder::new();
        let file = folder.0.join("daemon.json");
        fs::write(&file, "{\n\"a\" 1}").unwrap();
        let error = add("docker", &file).unwrap_err().to_string();
        let place = format!("{}, line 2, column 5: ", file.display());
        assert!(error.starts_with(&place) && error.contains("\nhelp: "), "{error}");
        let denied = Error::NotWritten {
            what: "write",
            file,
            cause: io::Error::from(io::ErrorKind::PermissionDenied),
        };
        assert!(denied.to_string().contains("\nhelp: do it as root (sudo"));
    }

    #[test]
    fn the_callers_files() {
        let file = |name: &str, caller: &Caller| (engine(name).file)(caller);
        let root = Caller { is_root: true, ..Caller::default() };
        let user = Caller { home: Some("/home/ann".into()), ..Caller::default() };
        let elsewhere = Caller { config_home: Some("/cfg".into()), ..user.clone() };
        let drop_in = "containers/containers.conf.d/eigentime.conf";
        for (caller, folder) in
            [(&root, "/etc"), (&user, "/home/ann/.config"), (&elsewhere, "/cfg")]
        {
            assert_eq!(file("podman", caller), Some(Path::new(folder).join(drop_in)));
        }
        assert_eq!(file("podman", &Caller::default()), None);
        assert_eq!(file("docker", &user), Some("/etc/docker/daemon.json".into()));
    }
}
