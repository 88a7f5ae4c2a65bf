//! The program from outside: arguments in, exit code and sentences out.

mod arguments;
mod datasets;
mod workplace;
