//! Finding the driver and NVRTC: by the loader's own path first, then where toolkits and Python packages
//! put them.

use super::error::DeviceError;
use cudarc::{driver, nvrtc};
use std::path::{Path, PathBuf};

const NVRTC_VERSIONS: [&str; 2] = ["13", "12"];

/// Makes both libraries available to `cudarc`, which panics where it cannot find them.
pub(super) fn load() -> Result<(), DeviceError> {
    // SAFETY: both only try to open the libraries, whose initialisers are NVIDIA's own.
    if unsafe { !driver::sys::is_culib_present() } {
        return Err(DeviceError::Library {
            library: "libcuda.so.1".into(),
            remedy: "it comes with the NVIDIA driver (Debian, Ubuntu: apt install nvidia-driver-580)".into(),
        });
    }
    load_nvrtc()
}

pub(super) fn load_nvrtc() -> Result<(), DeviceError> {
    // SAFETY: as above.
    if unsafe { nvrtc::sys::is_culib_present() } {
        return Ok(());
    }
    let folders = folders();
    for version in NVRTC_VERSIONS {
        for folder in &folders {
            let library = folder.join(format!("libnvrtc.so.{version}"));
            if library.is_file() && open_with_builtins(folder, &library) {
                return Ok(());
            }
        }
    }
    Err(DeviceError::Library {
        library: "libnvrtc.so.13 (or .12)".into(),
        remedy: "pip install nvidia-cuda-nvrtc (or nvidia-cuda-nvrtc-cu12), or apt install libnvrtc12; where it lies elsewhere, name its folder in LD_LIBRARY_PATH".into(),
    })
}

/// Opens a library by its full path, for good: `cudarc` then finds it by its name. NVRTC looks for its
/// builtins by name, too.
#[cfg(unix)]
fn open_with_builtins(folder: &Path, library: &Path) -> bool {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    let open = |path: &Path| {
        // SAFETY: NVIDIA's libraries run no code of ours when they are opened; they are never closed.
        let opened = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
        opened.map(std::mem::forget).is_ok()
    };
    let builtins = entries(folder).into_iter().filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("libnvrtc-builtins.so")
    });
    builtins.for_each(|path| _ = open(&path));
    open(library)
}

#[cfg(not(unix))]
fn open_with_builtins(_: &Path, _: &Path) -> bool {
    false
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Where toolkits and Python packages put libraries.
fn folders() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("/usr/local/cuda/lib64")];
    folders.extend(
        entries(Path::new("/usr/local"))
            .into_iter()
            .filter(|path| path.to_string_lossy().contains("/cuda-"))
            .map(|path| path.join("lib64")),
    );
    folders.extend(["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib"].map(PathBuf::from));
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let mut prefixes: Vec<PathBuf> =
        ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variable).collect();
    folders.extend(prefixes.iter().map(|prefix| prefix.join("lib")));
    // The Pythons that a shell would find: bin/python3 belongs to the folder above bin.
    let path = std::env::var_os("PATH").unwrap_or_default();
    prefixes.extend(
        std::env::split_paths(&path)
            .filter(|bin| bin.join("python3").exists())
            .filter_map(|bin| bin.parent().map(Path::to_path_buf)),
    );
    prefixes.extend(variable("HOME").map(|home| home.join(".local")));
    for prefix in prefixes {
        for python in entries(&prefix.join("lib")) {
            for packages in ["site-packages", "dist-packages"] {
                let nvidia = python.join(packages).join("nvidia");
                folders.extend(entries(&nvidia).into_iter().map(|package| package.join("lib")));
            }
        }
    }
    folders
}
