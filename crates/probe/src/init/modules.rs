//! The bundled kernel modules.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Their folder.
const FOLDER: &str = "/modules";

/// The names of their files, one per line, in the order of loading.
const LIST: &str = "/modules/list";

/// MODULE_INIT_COMPRESSED_FILE of include/uapi/linux/module.h: the kernel (5.17 on) unpacks it.
const COMPRESSED: libc::c_int = 4;

/// The suffixes of compressed modules.
const COMPRESSIONS: [&str; 3] = ["gz", "xz", "zst"];

/// Loads them all.
pub fn load_all() -> Result<(), String> {
    let list = match fs::read_to_string(LIST) {
        Ok(list) => list,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(format!("{LIST}: {error}")),
    };
    for name in list.lines() {
        let path = Path::new(FOLDER).join(name);
        match load(&path) {
            Ok(()) => {}
            // It is built into the kernel, or listed twice.
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
            Err(error) => {
                return Err(format!("the module {} cannot be loaded: {error}", path.display()));
            }
        }
    }
    Ok(())
}

fn load(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    let is_compressed =
        path.extension().is_some_and(|it| COMPRESSIONS.iter().any(|known| it == *known));
    let flags = if is_compressed { COMPRESSED } else { 0 };
    Ok(rustix::system::finit_module(file, c"", flags)?)
}
