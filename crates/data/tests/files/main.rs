//! Files and folders as users have them, good and bad: what is read, and what is said of the rest.

mod archive;
mod bad_files;
mod cache;
mod chest_xray;
#[path = "../damage/mod.rs"]
mod damage;
mod dicom;
mod dicom_make;
mod dicom_pixels;
mod formats;
mod found_layouts;
mod fuzz;
mod layouts;
mod lidc;
mod make;
mod output;
mod shared_data;
mod splits;
