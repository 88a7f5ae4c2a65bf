//! `import`: public collections in their own formats as data sets that the other commands read.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use multivalued_data::import::Limits;
use multivalued_data::lidc::{Found, Options, Written, write_scan};
use serde_json::{Value, json};

use crate::exit::{Failure, Outcome};
use crate::folder;
use crate::run::counting::Counting;
use crate::terminal::{complain, say};

/// Make a data set of a public collection
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  multivalued import lidc manifest-1600709154662/ --out data/")]
pub struct Import {
    #[command(subcommand)]
    collection: Collection,
}

#[derive(Debug, Subcommand)]
enum Collection {
    Lidc(Lidc),
}

impl Import {
    pub fn run(&self) -> Outcome {
        match &self.collection {
            Collection::Lidc(lidc) => lidc.run(),
        }
    }
}

/// LIDC-IDRI as TCIA hands it out: DICOM series and XML annotations of four readers
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  multivalued import lidc manifest-1600709154662/ --out data/\n  multivalued train lidc --data data/ \
--out runs/lidc\n\nDICOM and XML files may lie anywhere below the folder. Written are crops around each nodule of 3 mm and \
more that someone outlined, in the layout lidc-slices: one mask for each reader, empty where that reader drew nothing. \
docs/dicom.md says how."
)]
struct Lidc {
    /// The folder of the download
    folder: PathBuf,
    /// The new folder
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Whole scans with one mask file for each reader, in place of crops
    #[arg(long, conflicts_with = "crop")]
    volumes: bool,
    /// Columns and rows of a crop
    #[arg(long, value_name = "PIXELS", default_value_t = 128, value_parser = clap::value_parser!(u32).range(8..=4096))]
    crop: u32,
    /// Take the pixels of outlines as part of the nodule; readers drew them just outside
    #[arg(long)]
    with_border: bool,
}

impl Lidc {
    fn run(&self) -> Outcome {
        folder::must_be_free(&self.out)?;
        let limits = Limits::default();
        let options = Options {
            volumes: self.volumes,
            crop: self.crop as usize,
            with_border: self.with_border,
            limits,
        };
        let found = Found::find(&self.folder, &limits)?;
        found.faults.iter().for_each(|fault| complain(&format!("skipped: {fault}")));
        if found.without_scan > 0 {
            let count = found.without_scan;
            complain(&format!(
                "note: {count} annotation file(s) are of scans that are not here, and were left out"
            ));
        }
        if found.scans.is_empty() {
            let reason =
                "holds no LIDC scan with its annotations; give the folder with TCIA's DICOM and XML files";
            return Err(Failure::user(self.folder.display(), reason));
        }
        folder::make_empty(&self.out)?;
        let mut total = Total::default();
        let mut counting = Counting::of(found.scans.len(), "imported");
        for (at, scan) in found.scans.iter().enumerate() {
            if total.patient != scan.patient {
                total.begin(&scan.patient);
            }
            match write_scan(&self.out, scan, &options, total.nodules_of_patient, total.scans_of_patient + 1)
            {
                Ok(written) => total.add(written),
                Err(fault) => {
                    complain(&format!("skipped: {fault}"));
                    total.skipped += 1;
                }
            }
            counting.reached(at + 1);
        }
        drop(counting);
        self.finish(&total)
    }

    fn finish(&self, total: &Total) -> Outcome {
        let &Total { patients, nodules, slices, missing, skipped, .. } = total;
        if slices == 0 {
            let reason = "no nodule of 3 mm or more could be read from its scans, as told above; repair them";
            return Err(Failure::user(self.folder.display(), reason));
        }
        if missing > 0 {
            complain(&format!("note: {missing} outline(s) are of slices that their scan does not have"));
        }
        if self.volumes {
            let lines: Vec<String> = total.rows.iter().map(|row| format!("{row}\n")).collect();
            folder::write(&self.out.join("manifest.jsonl"), lines.concat().as_bytes())?;
        }
        let document = json!({
            "format": "multivalued-import",
            "version": 1,
            "collection": "LIDC-IDRI",
            "written": if self.volumes { "volumes" } else { "crops" },
            "crop": (!self.volumes).then_some(self.crop),
            "outlines": if self.with_border { "part of the nodule" } else { "outside of the nodule" },
            "patients": patients,
            "nodules": nodules,
            "slices": slices,
            "scans_skipped": skipped,
            "outlines_without_slice": missing,
        });
        folder::write(&self.out.join("import.json"), format!("{document:#}\n").as_bytes())?;
        let mut line =
            format!("{slices} slices of {nodules} nodules in {patients} patients, in {}", self.out.display());
        if skipped > 0 {
            line += &format!("; {skipped} scan(s) skipped");
        }
        say(&line)
    }
}

/// What was written so far.
#[derive(Default)]
struct Total {
    patient: String,
    scans_of_patient: usize,
    nodules_of_patient: usize,
    slices_of_patient: usize,
    patients: usize,
    nodules: usize,
    slices: usize,
    missing: usize,
    skipped: usize,
    rows: Vec<Value>,
}

impl Total {
    fn begin(&mut self, patient: &str) {
        patient.clone_into(&mut self.patient);
        (self.scans_of_patient, self.nodules_of_patient, self.slices_of_patient) = (0, 0, 0);
    }

    fn add(&mut self, written: Written) {
        self.patients += usize::from(self.slices_of_patient == 0 && written.slices > 0);
        self.scans_of_patient += 1;
        self.slices_of_patient += written.slices;
        self.nodules_of_patient += written.nodules;
        self.nodules += written.nodules;
        self.slices += written.slices;
        self.missing += written.missing_outlines;
        self.rows.extend(written.row);
    }
}
