use super::*;

#[test]
fn the_kernels_lines_are_told_from_qemus() {
    assert!(!has_spoken("qemu-system-x86_64: warning: host doesn't support requested feature\n"));
    assert!(has_spoken("qemu: warning\n[    0.000000] Linux version 6.1.0\n"));
}

#[test]
fn the_last_lines_are_told() {
    let text = (0..20).map(|it| format!("line {it}\r\n\r\n")).collect::<String>();
    let told = last(&text);
    assert_eq!(told.lines().count(), LAST_LINES);
    assert!(told.starts_with("line 12\n") && told.ends_with("line 19"), "{told}");
    assert_eq!(last(""), "");
    let panic = format!("[    2.0] Kernel panic - not syncing: no init\n{text}");
    assert!(last(&panic).starts_with("[    2.0] Kernel panic"), "{}", last(&panic));
}

#[test]
fn what_is_missing_is_said_before_anything_starts() {
    let vm = Settings {
        qemu: Some("/no/such/qemu".into()),
        ..Settings::new(Path::new("/no/such/probe"))
    };
    let Err(missing) = Vm::from(vm).open(&Stop::default()).map(drop) else {
        panic!("there is no such QEMU")
    };
    assert!(missing.why.contains("/no/such/qemu is not there"), "{missing}");
    assert!(missing.help.contains("qemu-system-x86"), "{missing}");

    let sh = Some(PathBuf::from("/bin/sh"));
    let vm = Settings {
        qemu: sh.clone(),
        kernel: Some("/no/such/kernel".into()),
        ..Settings::new(Path::new("/no/such/probe"))
    };
    let Err(missing) = Vm::from(vm).open(&Stop::default()).map(drop) else {
        panic!("there is no such kernel")
    };
    assert!(missing.why.contains("/no/such/kernel cannot be read"), "{missing}");

    let vm =
        Settings { qemu: sh.clone(), kernel: sh, ..Settings::new(Path::new("/no/such/probe")) };
    let Err(missing) = Vm::from(vm).open(&Stop::default()).map(drop) else {
        panic!("there is no such probe")
    };
    assert!(missing.why.contains("/no/such/probe"), "{missing}");
}

#[test]
fn a_machine_that_ends_at_once_is_told_with_its_last_words() {
    let sh = Some(PathBuf::from("/bin/sh"));
    let vm = Settings {
        qemu: sh.clone(),
        kernel: sh,
        accelerator: Some(Accelerator::Tcg),
        ..Settings::new(Path::new("/bin/sh"))
    };
    let Err(ended) = Vm::from(vm).open(&Stop::default()).map(drop) else {
        panic!("a shell is no QEMU")
    };
    assert!(ended.why.contains("by tcg has ended before the probe greeted"), "{ended}");
}
