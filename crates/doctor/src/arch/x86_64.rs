//! x86-64.

use core::arch::x86_64::__cpuid;

/// The processor's name for its counter.
pub const COUNTER: &str = "tsc";

/// The vDSO's clock modes (arch/x86/include/asm/vdso/clocksource.h) that read the processor's
/// counter, the page of KVM or Xen, and that of Hyper-V.
pub const COUNTER_MODES: &[i32] = &[1];
pub const PVCLOCK_MODE: Option<i32> = Some(2);
pub const HVCLOCK_MODE: Option<i32> = Some(3);

/// Reads the signatures of the hypervisors; usually outer interfaces first.
pub const SIGNATURES: Option<fn() -> Vec<String>> = Some(signatures);

/// The bit of leaf 1 that indicates a hypervisor (ECX).
const PRESENT: u32 = 1 << 31;
/// The first hypervisor leaf, the distance of several, and the end of the search, as in the
/// kernel (`hypervisor_cpuid_base` in arch/x86/include/asm/processor.h).
const BASE: u32 = 0x4000_0000;
const STEP: usize = 0x100;
const END: u32 = 0x4001_0000;

fn signatures() -> Vec<String> {
    let leaf = |leaf| __cpuid(leaf);
    if leaf(1).ecx & PRESENT == 0 {
        return Vec::new();
    }
    let mut signatures = Vec::new();
    for base in (BASE..END).step_by(STEP) {
        let says = leaf(base);
        let letters = [says.ebx, says.ecx, says.edx].map(u32::to_le_bytes).concat();
        // Without a hypervisor, some processors return their last leaf, which is not text.
        let letters: Vec<_> = letters.into_iter().take_while(|it| *it != 0).collect();
        let is_name = letters.len() >= 4 && letters.iter().all(|it| matches!(it, b' '..=b'~'));
        let is_leaf = (base..base + STEP as u32).contains(&says.eax) || says.eax == 0;
        match String::from_utf8(letters) {
            Ok(name) if is_name && is_leaf && !signatures.contains(&name) => {
                signatures.push(name);
            }
            _ => {}
        }
    }
    signatures
}
