use multivalued::{Recipe, train::Trainer};
use multivalued_data::{
    evaluate::{Settings, evaluate},
    synthetic::Task,
};
fn main() {
    let mut args = std::env::args().skip(1);
    let mut recipe = Recipe::open(&args.next().unwrap()).unwrap();
    for a in args {
        recipe.set(&a).unwrap();
    }
    recipe.validate().unwrap();
    let d = &recipe.data;
    let task = Task::new(d.task.parse().unwrap(), d.size, d.seed).unwrap();
    let train = task.generate("train", d.train_count);
    let val = task.generate("validation", d.validation_count);
    let test = task.generate("test", d.test_count);
    let mut t = Trainer::new(&recipe, train, val, &multivalued_engine::Device::cpu()).unwrap();
    while !t.is_finished() {
        let s = t.step().unwrap();
        if s.ends_epoch {
            let e = t.end_epoch().unwrap();
            if e.validation.is_some() {
                println!(
                    "ep {} step {} {:.0}s rec {:.4} ce {:.4} es {:.4} used {} act {} perp {:.2} h {:.1} chg {:.3} gn {:.2} | val ged {:.4} hm {:.3} nx {:.2}",
                    e.epoch,
                    e.step,
                    e.seconds,
                    e.loss.reconstruction,
                    e.loss.cross_entropy,
                    e.loss.energy,
                    e.used_codes,
                    e.active_codes,
                    e.perplexity,
                    e.h_norm,
                    e.changed_assignments,
                    e.gradient_norm,
                    e.validation.unwrap().ged_exact,
                    e.validation.unwrap().hm_iou,
                    e.validation.unwrap().n_x_1pct
                );
            }
        }
    }
    let seconds = t.seconds();
    let recipe2 = recipe.clone();
    let preds = t.with_averaged_weights(|m| multivalued::predict::predict_cases(m, &recipe2, &test));
    let r = evaluate(&test, &preds, &Settings::new("test")).unwrap();
    let s = &r.summary;
    println!("RESULT seed {} {:.0}s {}", recipe.train.seed, seconds, serde_json::to_string(s).unwrap());
}
