//! A temporary folder in which the program is run, and what it answered.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder that vanishes with the test.
pub struct Workplace {
    folder: tempfile::TempDir,
}

impl Workplace {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// A PNG of 8-bit grey pixels, in rows of `width`.
    pub fn png(&self, name: &str, width: u32, pixels: &[u8]) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let height = pixels.len() as u32 / width;
        image::save_buffer(&path, pixels, width, height, image::ExtendedColorType::L8).unwrap();
    }

    /// Unpacks some folders of an archive of real data, or all of it where none are named; says why, and false,
    /// where it or the program for it is not there.
    pub fn unpack(&self, name: &str, folders: &[String]) -> bool {
        let archive = format!("{}/../../../shared/data/{name}.tar.zst", env!("CARGO_MANIFEST_DIR"));
        if !Path::new(&archive).is_file() {
            eprintln!("skipped: {archive} is not there");
            return false;
        }
        let Ok(mut unpacking) = Command::new("zstd").args(["-dc", &archive]).stdout(Stdio::piped()).spawn()
        else {
            eprintln!("skipped: the zstd program is not there");
            return false;
        };
        let stream = unpacking.stdout.take().unwrap();
        let mut taking = Command::new("tar");
        taking.arg("-x").arg("-C").arg(self.root()).args(folders).stdin(stream);
        let done = taking.status().unwrap();
        assert!(done.success() && unpacking.wait().unwrap().success(), "{archive} cannot be unpacked");
        true
    }

    /// The program, ready to be started in this folder.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_multivalued"));
        command.args(arguments).current_dir(self.root()).stdin(Stdio::null());
        command.env_remove("RUST_BACKTRACE");
        // What the program packs by itself must not be left in the user's own folder.
        command.env("XDG_CACHE_HOME", self.path("user-caches"));
        command
    }

    /// Runs the program to its end. Whatever it was given, it must not panic.
    pub fn run(&self, arguments: &[&str]) -> Answer {
        Answer::of(arguments, &self.command(arguments).output().unwrap())
    }
}

/// What the program answered.
pub struct Answer {
    pub code: i32,
    pub out: String,
    pub err: String,
    asked: String,
}

impl Answer {
    pub fn of(arguments: &[&str], output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let answer = Self {
            code: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
            asked: arguments.join(" "),
        };
        assert!(!answer.err.contains("panicked"), "`{}` panicked:\n{}", answer.asked, answer.err);
        answer
    }

    /// Asserts an exit code of 0.
    #[track_caller]
    pub fn succeeds(self) -> Self {
        assert_eq!(self.code, 0, "`{}` failed:\n{}\n{}", self.asked, self.out, self.err);
        self
    }

    /// Asserts that a training came to its end: with 0, or with 1 and the sentence that its model is of no use,
    /// which is no wonder after so few steps.
    #[track_caller]
    pub fn trained(self) -> Self {
        let useless = ["of no use", "has collapsed"].iter().any(|part| self.err.contains(part));
        let ended = self.code == 0 || self.code == 1 && useless;
        assert!(ended, "`{}` ended with {}:\n{}\n{}", self.asked, self.code, self.out, self.err);
        self
    }

    /// Asserts an exit code and parts of what was complained about.
    #[track_caller]
    pub fn fails(self, code: i32, parts: &[&str]) -> Self {
        assert_eq!(self.code, code, "`{}` ended with {}:\n{}\n{}", self.asked, self.code, self.out, self.err);
        for part in parts {
            assert!(self.err.contains(part), "`{}` does not say {part:?}:\n{}", self.asked, self.err);
        }
        self
    }
}
