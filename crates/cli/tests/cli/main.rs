//! The program from outside: arguments in, exit code and sentences out.

mod arguments;
mod checkpoints;
mod datasets;
mod interruption;
mod models;
mod recipes;
mod tiny;
mod training;
mod workplace;
