//! A plan as a recipe's text, each choice with its reason as a comment.

use super::Plan;
use crate::recipe::Recipe;

impl Plan {
    /// The whole recipe as TOML, defaults included, with the reason above each key that was chosen.
    pub fn to_toml(&self) -> String {
        annotated(&self.recipe, |key| {
            self.choices().iter().find(|choice| choice.key == key).map(|choice| choice.reason.as_str())
        })
    }
}

fn annotated<'a>(recipe: &Recipe, reason: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut text =
        "# Planned from the data. Each choice has its reason above it; all other keys are defaults \
                    (docs/recipe.md).\n"
            .to_owned();
    let mut table = String::new();
    for line in recipe.to_toml().lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
            && !line.contains('=')
        {
            table = name.to_owned();
        } else if let Some((key, _)) = line.split_once(" = ")
            && let Some(reason) = reason(&format!("{table}.{}", key.trim()))
        {
            for part in wrapped(reason, 100) {
                text += &format!("# {part}\n");
            }
        }
        text += line;
        text.push('\n');
    }
    text
}

/// Words in lines of at most so many characters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use multivalued_data::fingerprint::Fingerprint;
    use multivalued_data::synthetic::Task;

    #[test]
    fn the_text_is_the_recipe_and_names_every_reason() {
        let cases = Task::new("raters".parse().unwrap(), 48, 1).unwrap().generate("train", 40);
        let plan = Plan::new(&Fingerprint::of(&cases[..].into()).unwrap(), 30, 10, false);
        let text = plan.to_toml();
        assert_eq!(Recipe::parse(&text, "plan").unwrap(), plan.recipe);
        for choice in plan.choices() {
            let first = wrapped(&choice.reason, 100).remove(0);
            let key = choice.key.split_once('.').unwrap().1;
            assert!(text.contains(&format!("# {first}\n")), "{first}");
            assert!(text.contains(&format!("\n{key} = ")) || text.contains(key), "{key}");
        }
        let mut changed = plan.clone();
        changed.forget_reason("train.steps");
        assert!(changed.choices().iter().all(|choice| choice.key != "train.steps"));
        assert!(changed.to_toml().len() < text.len());
    }
}
