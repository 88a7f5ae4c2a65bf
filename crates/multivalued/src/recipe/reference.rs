//! What each key of a recipe means and what the paper uses: the source of `docs/recipe.md`.

use super::bounds::range_of;
use super::keys;

/// (key, meaning, the paper's value; empty where the paper has nothing of the kind)
const MEANINGS: &[(&str, &str, &str)] = &[
    (
        "method.kind",
        "what is trained: `\"multivalued\"`, or a baseline, `\"probabilistic-unet\"` or `\"unet\"`; a baseline takes no `assignment` and no code of `model`, the Probabilistic U-Net no `loss`",
        "all but unet",
    ),
    ("method.latent_dim", "dimensions of the Probabilistic U-Net's latent space", "6 (Kohl et al.)"),
    (
        "method.divergence",
        "β, weight of its divergence of posterior from prior, beside a cross-entropy that is summed over pixels",
        "10 (Kohl et al.)",
    ),
    ("data.task", "synthetic task, empty where `data.path` names a data set", ""),
    ("data.path", "data set's folder or manifest, empty for a synthetic task", ""),
    ("data.layout", "how a data set's files are arranged, empty to find out by content", ""),
    (
        "data.masks",
        "what makes stored values a mask: `binary`, `threshold:VALUE` or `labels:COUNT`; empty for what the data set says, else by the values of its masks",
        "",
    ),
    (
        "data.group_by",
        "regular expression: what its first capture group, else all of it, matches of a case's id is the group that no split tears apart (`--group-by`); empty for the data set's own groups",
        "",
    ),
    (
        "data.skip_bad",
        "leave out images with a file that cannot be used, and name them, instead of refusing the data set (`--skip-bad`)",
        "",
    ),
    ("data.size", "edge length of a synthetic task's images", "160 (shapes)"),
    ("data.train_count", "training cases of a synthetic task", ""),
    ("data.validation_count", "validation cases of a synthetic task", ""),
    ("data.test_count", "test cases of a synthetic task", ""),
    ("data.validation_share", "share of groups kept for validation, where the data set states no split", ""),
    ("data.test_share", "share of groups kept for testing, where the data set states no split", ""),
    (
        "data.folds",
        "cross-validation: the groups of all cases are cut into so many parts, whatever split the data set states (`--folds`); 0 for none",
        "",
    ),
    (
        "data.fold",
        "which of them is the test part of this training, from 1 on; a share `data.validation_share` of the others is kept for validation. 0 stands for all of them in turn",
        "",
    ),
    ("data.seed", "seed of the synthetic task and of splits", ""),
    (
        "data.normalise",
        "raw values to network input: `\"min-max\"`, `\"z-score\"` or `{ range = { low = -1000, high = 400 } }`",
        "",
    ),
    (
        "data.resize",
        "`[width, height]` that images are brought to before the network sees them; masks are brought back",
        "",
    ),
    (
        "data.spacing",
        "distance of columns and rows, in the files' unit, that images are brought to before the network sees them; masks are brought back, and an image that states no spacing stays as it is. Images then differ in size: `augment.crop` gives them one to train with, larger ones cut, smaller ones extended. 0 for none",
        "",
    ),
    (
        "data.context",
        "1 for the slices before and after as further channels (`model.input_channels` is 3 then; at the ends of a volume, and of an image that is no slice, the image itself stands for the one that is missing); 0 for none",
        "",
    ),
    ("augment.flip_horizontal", "probability of swapping left and right", ""),
    ("augment.flip_vertical", "probability of swapping top and bottom", ""),
    (
        "augment.flip_diagonal",
        "probability of mirroring about the diagonal from lower left to upper right (square images)",
        "",
    ),
    ("augment.quarter_turns", "turn by 0, 90, 180 or 270 degrees", ""),
    ("augment.rotation", "largest further rotation, in degrees", ""),
    ("augment.scale", "largest relative change of size", ""),
    ("augment.distortion", "largest shear and stretch: change of each entry of the affine map", ""),
    (
        "augment.crop",
        "`[width, height]` to cut out at a random place; needed where images differ in size",
        "",
    ),
    ("augment.gain", "largest relative change of contrast", ""),
    ("augment.offset", "largest change of brightness, as a share of the image's range", ""),
    ("augment.noise", "standard deviation of added noise, as a share of the image's range", ""),
    ("model.channels", "channels of the encoder's levels, the finest first", "[32, 64, 128, 256]"),
    ("model.input_channels", "channels of the image", ""),
    ("model.classes", "foreground classes; 1 is a binary mask", ""),
    ("model.norm_group", "channels per group of the group normalisation; 0 for none", "not stated"),
    ("model.code_count", "N, codes in the codebook; below 2·code_dim and at most code_dim + 1", "256"),
    ("model.code_dim", "m, dimensions of a code and of h", "256"),
    ("model.code_entry", "where a code enters the generator: `\"head\"` or `\"bottleneck\"`", "head"),
    ("model.head_width", "channels of the 1x1 head", "not stated"),
    ("model.head_hidden", "hidden 1x1 layers after the one the code enters", "not stated"),
    ("model.code_scale", "standard deviation of the weights a code enters by, at the start", "not stated"),
    (
        "model.classifier",
        "the classifier's matrix: `\"simplex-etf\"` (fixed) or `\"learnable\"`",
        "simplex-etf; learnable as ablation",
    ),
    ("model.classifier_hidden", "width of the classifier's hidden layer; 0 for none", "not stated"),
    ("model.lookup", "how embeddings meet codes: `\"cosine\"` or `\"euclidean\"`", "euclidean"),
    ("model.train_codes", "codes are trained by gradient rather than by the moving average", "false"),
    (
        "model.empty_head",
        "whether a head of its own says how probable the empty mask is, from the pixels that matter; codes are then for other masks",
        "false",
    ),
    (
        "assignment.space",
        "where an annotation finds its code: among outputs (`\"output\"`, E_2) or codes (`\"embedding\"`, E_3)",
        "embedding",
    ),
    (
        "assignment.active_codes",
        "codes that take part from the start, the others in reserve; 0 for all",
        "all",
    ),
    ("assignment.temperature_start", "temperature of the soft assignment at the start", ""),
    ("assignment.temperature_end", "temperature when it turns hard", ""),
    ("assignment.anneal_until", "share of the training after which the assignment is hard", "0: always hard"),
    ("assignment.prior", "distance that one unit of −ln p(code) weighs in the hard assignment", "0"),
    ("assignment.distinct", "different annotations of one image take different codes", "false"),
    ("assignment.same_iou", "annotations that overlap at least this much are the same output", ""),
    ("assignment.min_usage", "codes that serve a smaller share of annotations go into reserve", "0"),
    (
        "loss.reconstruction",
        "distance to an annotation: `\"bce\"`, `\"log-bce\"`, `\"soft-dice\"` or `\"soft-jaccard\"`",
        "log-bce in the text, bce in the experiments",
    ),
    ("loss.cross_entropy", "α, weight of the classifier's cross-entropy", "not stated"),
    (
        "loss.cross_entropy_from",
        "share of the training after which the cross-entropy counts",
        "after 20 epochs",
    ),
    ("loss.emptiness", "weight of the cross-entropy of `model.empty_head`", ""),
    ("loss.commitment", "β, weight of the commitment", "0.25"),
    (
        "loss.covariance",
        "γ, step of the covariance descent on codes in use; 0 switches it off",
        "0.01; 0 as ablation",
    ),
    ("loss.average_decay", "κ, decay of the codebook's moving average; 1 fixes the codebook", "not stated"),
    (
        "loss.overlap",
        "weight of the soft Jaccard distance of annotations to their codes' outputs, once the assignment is hard",
        "0",
    ),
    ("loss.energy", "weight of the energy score", "0"),
    ("loss.energy_from", "share of the training after which the energy score counts", ""),
    ("loss.reconstruction_with_energy", "weight of the reconstruction once the energy score counts", ""),
    (
        "loss.probability_gradient",
        "share of the gradient of probabilities that reaches the features which masks are drawn from; below 1 fewer \
         probabilities are learned by heart",
        "1",
    ),
    ("train.batch", "images in a step", "32"),
    ("train.annotations", "annotations of each image in a step, drawn by weight; 0 takes all", "not stated"),
    ("train.steps", "budget in steps; exactly one of steps, epochs and minutes is above 0", ""),
    (
        "train.epochs",
        "budget in passes over the training images",
        "not stated; the rate's last step is at 1200",
    ),
    ("train.minutes", "budget in minutes; not reproducible to the bit", ""),
    ("train.learning_rate", "the full learning rate", "1e-4"),
    ("train.schedule", "how it falls: `\"cosine\"`, `\"paper\"` or `\"constant\"`", "paper"),
    ("train.warmup_steps", "steps over which the rate rises", "0"),
    ("train.final_rate", "share of the full rate that the cosine ends at", ""),
    ("train.beta2", "Adam's decay of squared gradients", "0.999 (Adam's default)"),
    ("train.weight_decay", "decoupled weight decay", "0"),
    ("train.clip_norm", "largest norm of a step's gradients; 0 for no limit", "not stated"),
    ("train.weight_average", "decay of the averaged weights that prediction uses; 0 for none", "0"),
    (
        "train.precision",
        "how a GPU computes: `\"f32\"`, `\"tf32\"` or `\"bf16\"` (parameters, losses and sums stay f32); without effect on a processor",
        "",
    ),
    ("train.validate_every", "epochs between validations", ""),
    (
        "train.patience",
        "validations without a lower GED after which the training ends; 0 to go on to the end",
        "",
    ),
    ("train.seed", "seed of weights, order of cases and draws of annotations", ""),
    (
        "train.from",
        "folder of a run or model whose weights the training starts from, tensor by tensor where name and shape fit (`--from`); empty to start anew",
        "",
    ),
    (
        "train.teacher",
        "folder of a run, model or mixture whose answers are learned beside the annotations (`distil`); empty for none",
        "",
    ),
    ("train.teacher_share", "share of each case's weight that the teacher's answers have", ""),
    ("predict.min_probability", "ε, codes below it are dropped", "1e-5"),
    ("predict.merge_iou", "outputs that overlap at least this much are merged", "1: never"),
    (
        "predict.samples",
        "samples of the Probabilistic U-Net's prior for each image, equal ones counted together",
        "4 and 16",
    ),
    (
        "predict.views",
        "views of each image, flipped, turned and resampled as `augment` does and brought back, whose outputs and probabilities are averaged; costs as many passes",
        "1",
    ),
    (
        "predict.calibrate",
        "whether a training ends with the keys below fitted to its validation cases, by maximum likelihood; `best/` and models made of it keep them",
        "false",
    ),
    ("predict.temperature", "probabilities of masks that are not empty are raised to 1/this", "1"),
    ("predict.empty_temperature", "the logit of the empty mask's probability is divided by this", "1"),
    ("predict.empty_shift", "what is added to that logit afterwards", "0"),
    (
        "predict.spread",
        "every mask is given three times, a third of its probability each: as it is, and with its outline where the \
         logit is so much below and above 0; for masks of one class. Fitted with the temperatures, where it lowers the \
         GED, outlines differ as readers' do (codes are shared and `loss.overlap` is 0) and there are 20 groups to \
         validate by; 0 for none",
        "0",
    ),
];

/// `docs/recipe.md`: every key with its default, its meaning and the paper's value.
pub fn reference() -> String {
    let mut text = String::from(
        "# Recipe reference\n\n\
         A recipe is a TOML file that states what differs from these defaults; `table.key=value` changes \
         one key. A number outside its range is refused. The last column is the paper's value: a dash where the paper has nothing of the kind or \
         leaves it to the data. Generated from `crates/multivalued/src/recipe/reference.rs`.\n",
    );
    let defaults = keys();
    let mut table = "";
    for (name, meaning, paper) in MEANINGS {
        let (this, key) = name.split_once('.').unwrap_or(("", name));
        if this != table {
            table = this;
            text += &format!(
                "\n## `[{table}]`\n\n| key | default | range | meaning | paper |\n|---|---|---|---|---|\n"
            );
        }
        let default = defaults.iter().find(|key| key.name == *name).map_or("", |key| &key.default);
        let default = if default.is_empty() { "none".into() } else { format!("`{default}`") };
        let paper = if paper.is_empty() { "–" } else { paper };
        let range = range_of(name).unwrap_or_else(|| "–".into());
        text += &format!("| `{key}` | {default} | {range} | {meaning} | {paper} |\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_explained_once() {
        let mut explained: Vec<&str> = MEANINGS.iter().map(|(name, ..)| *name).collect();
        let keys = keys();
        let mut known: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
        explained.sort_unstable();
        known.sort_unstable();
        assert_eq!(explained, known);
    }

    /// `MULTIVALUED_WRITE_DOCS=1 cargo test -p multivalued` brings the file up to date.
    #[test]
    fn the_committed_reference_is_current() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipe.md");
        if std::env::var_os("MULTIVALUED_WRITE_DOCS").is_some() {
            std::fs::write(&path, reference()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), reference(), "see the test's comment");
    }
}
