//! How the program ends: the exit codes, and failures as one sentence of place, cause and remedy.

use std::fmt;
use std::io;
use std::path::Path;

use multivalued_engine::DeviceError;

/// The exit code of [`Failure::Interrupted`].
pub const INTERRUPTED: u8 = 75;
/// The exit code of what the user can repair.
const USERS: u8 = 2;

/// Why a command did not end with 0.
#[derive(Debug)]
pub enum Failure {
    /// 1: the work was done, but its result is below a bound that was asked for.
    BelowBound(String),
    /// 2: something the user can repair: an argument, a recipe, a file.
    User(String),
    /// 2: a file or folder is not there.
    Missing(String),
    /// 2: more memory is needed than there is.
    Memory(String),
    /// 2: the device that was asked for cannot be had.
    NoDevice(String),
    /// 74: a device failed while it computed.
    DeviceFailed(String),
    /// 74: the operating system refused to read or write.
    Io(String),
    /// 74: the place may be read but not written to.
    ReadOnly(String),
    /// 75: stopped by a signal after a checkpoint was saved.
    Interrupted(String),
    /// 75: another process of a training has ended, or cannot be reached; the last checkpoint stays.
    Lost(String),
    /// 0 and silent: whoever read the output has closed it, as `head` does.
    OutputClosed,
}

/// A command's result.
pub type Outcome<T = ()> = Result<T, Failure>;

/// A failure's sentence, to be read or to be changed.
macro_rules! message_of {
    ($failure:expr) => {
        match $failure {
            Self::OutputClosed => None,
            Self::BelowBound(message)
            | Self::User(message)
            | Self::Missing(message)
            | Self::Memory(message)
            | Self::NoDevice(message)
            | Self::DeviceFailed(message)
            | Self::Io(message)
            | Self::ReadOnly(message)
            | Self::Lost(message)
            | Self::Interrupted(message) => Some(message),
        }
    };
}

impl Failure {
    /// The user's error at a place: a path, an option, a key.
    pub fn user(place: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self::User(format!("{place}: {reason}"))
    }

    /// The same failure, said of a place.
    pub fn at(place: impl fmt::Display, failure: impl Into<Self>) -> Self {
        let mut failure = failure.into();
        if let Some(message) = failure.message_mut() {
            *message = format!("{place}: {message}");
        }
        failure
    }

    /// The operating system's refusal at a path. What is missing or is of the wrong kind is the user's
    /// to repair; a full disk, a lost device or a lack of permission is the system's.
    pub fn io(path: &Path, source: &io::Error) -> Self {
        let place = path.display();
        match source.kind() {
            io::ErrorKind::NotFound => {
                Self::Missing(format!("{place}: there is no such file or folder; check the path"))
            }
            io::ErrorKind::NotADirectory => {
                Self::user(place, "a part of this path is a file, not a folder; choose another path")
            }
            io::ErrorKind::AlreadyExists => {
                Self::user(place, "a file is in the way of a folder; choose another path")
            }
            io::ErrorKind::IsADirectory => Self::user(place, "is a folder, where a file is wanted"),
            io::ErrorKind::InvalidFilename => {
                Self::user(place, format!("{source}; choose a shorter or another name"))
            }
            io::ErrorKind::InvalidData => Self::user(place, format!("{source}; is it the right file?")),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::Io(format!("{place}: {source}; free some space or choose another folder"))
            }
            io::ErrorKind::PermissionDenied => {
                Self::ReadOnly(format!("{place}: {source}; check its permissions or choose another place"))
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                Self::ReadOnly(format!("{place}: {source}; choose a folder that can be written to"))
            }
            _ => Self::Io(format!("{place}: {source}")),
        }
    }

    /// What happened, in a sentence; none where nobody listens.
    pub fn message(&self) -> Option<&str> {
        message_of!(self)
    }

    fn message_mut(&mut self) -> Option<&mut String> {
        message_of!(self)
    }

    /// The code that the process ends with.
    pub fn code(&self) -> u8 {
        match self {
            Self::OutputClosed => 0,
            Self::BelowBound(_) => 1,
            Self::User(_) | Self::Missing(_) | Self::Memory(_) | Self::NoDevice(_) => USERS,
            Self::Io(_) | Self::ReadOnly(_) | Self::DeviceFailed(_) => 74,
            Self::Interrupted(_) | Self::Lost(_) => INTERRUPTED,
        }
    }

    /// Whether the user can repair it.
    pub fn is_users(&self) -> bool {
        self.code() == USERS
    }

    /// Tells the failure on standard error and gives its exit code.
    pub fn report(&self) -> u8 {
        if let Some(message) = self.message() {
            let word = if self.code() == INTERRUPTED { "interrupted" } else { "error" };
            crate::terminal::complain(&format!("{word}: {message}"));
        }
        self.code()
    }
}

impl From<multivalued_data::Error> for Failure {
    fn from(error: multivalued_data::Error) -> Self {
        match error {
            multivalued_data::Error::Io { path, source } => Self::io(&path, &source),
            memory @ multivalued_data::Error::Memory { .. } => Self::Memory(memory.to_string()),
            other => Self::User(other.to_string()),
        }
    }
}

impl From<multivalued::Error> for Failure {
    fn from(error: multivalued::Error) -> Self {
        match error {
            multivalued::Error::Data(error) => error.into(),
            multivalued::Error::Io { path, source } => Self::io(&path, &source),
            multivalued::Error::Device(error) => error.into(),
            lost @ multivalued::Error::Lost { .. } => Self::Lost(lost.to_string()),
            other => Self::User(other.to_string()),
        }
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Failed { .. } => Self::DeviceFailed(error.to_string()),
            DeviceError::OutOfMemory { .. } | DeviceError::OutOfMachineMemory { .. } => {
                Self::Memory(error.to_string())
            }
            DeviceError::TooLarge { .. } => Self::User(error.to_string()),
            other => Self::NoDevice(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_keep_their_kind_and_say_their_place() {
        let missing = Failure::io(Path::new("run"), &io::Error::from(io::ErrorKind::NotFound));
        assert!(matches!(missing, Failure::Missing(_)) && missing.is_users());
        let memory = multivalued_data::Error::Memory { what: "scan.nii".into(), needed: 9, available: 1 };
        let failure = Failure::at("slice 3", multivalued::Error::Data(memory));
        assert!(matches!(&failure, Failure::Memory(said) if said.starts_with("slice 3: scan.nii: needs")));
        assert_eq!(failure.code(), 2);
        let lost = DeviceError::Failed { during: "a step".into(), reason: "lost".into() };
        assert_eq!((Failure::from(lost.clone()).code(), Failure::OutputClosed.code()), (74, 0));
        assert!(matches!(Failure::at("images", multivalued::Error::Device(lost)), Failure::DeviceFailed(_)));
        let none = Failure::from(DeviceError::Unsuitable("no GPU".into()));
        assert!(matches!(none, Failure::NoDevice(_)) && none.is_users());
    }

    #[test]
    fn a_refusal_of_the_system_is_told_apart_from_a_wrong_path() {
        for (kind, system) in [
            (io::ErrorKind::NotFound, false),
            (io::ErrorKind::IsADirectory, false),
            (io::ErrorKind::AlreadyExists, false),
            (io::ErrorKind::InvalidFilename, false),
            (io::ErrorKind::InvalidData, false),
            (io::ErrorKind::StorageFull, true),
            (io::ErrorKind::PermissionDenied, true),
            (io::ErrorKind::Other, true),
        ] {
            let failure = Failure::io(Path::new("run"), &io::Error::from(kind));
            assert_eq!(failure.is_users(), !system, "{kind:?}");
        }
    }
}
