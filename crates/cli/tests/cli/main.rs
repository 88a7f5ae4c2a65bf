//! The program from outside: arguments in, exit code and sentences out.

mod arguments;
mod bad_files;
mod caches;
mod checkpoints;
mod damage;
mod datasets;
mod documents;
mod films;
mod folds;
mod forms;
mod full_disk;
mod interruption;
mod links;
mod memory;
mod models;
mod names;
mod onnx;
mod prediction_maps;
mod prediction_sets;
mod recipes;
mod shipped;
mod terminal;
mod tiny;
mod training;
mod workplace;
