//! What the template must hold whatever its parameters are, and that each of
//! these rules notices when it does not.

mod api;
mod functions;
mod queues;
mod table;

use ops::parameter_sets::PARAMETER_SETS;
use serde_json::{Value, json};

use crate::expansion::{Expansion, number, template, text};

const FUNCTIONS: [&str; 2] = ["Producer", "Consumer"];

type Rule = (&'static str, fn(&Expansion) -> bool);

/// One way to break the template for a rule: where, with what, and at which
/// parameters it shows. A rule has one of these or several.
type Break = (&'static str, &'static str, &'static str, usize);

const RULES: [&[Rule]; 4] = [queues::RULES, functions::RULES, api::RULES, table::RULES];
const BREAKS: [&[Break]; 4] = [queues::BREAKS, functions::BREAKS, api::BREAKS, table::BREAKS];

#[test]
fn every_rule_holds_for_every_set_of_parameters() {
    let template = template();
    for (set, parameters) in PARAMETER_SETS {
        let expansion = Expansion::new(&template, parameters);
        assert_eq!(broken(&expansion), [""; 0], "{set}");
    }
}

#[test]
fn each_rule_fails_when_the_template_is_broken() {
    let template = template();
    for (rule, path, value, set) in BREAKS.concat() {
        let mut broken_template = template.clone();
        let pointer = format!("/Resources/{path}");
        let place = broken_template.pointer_mut(&pointer).unwrap_or_else(|| panic!("no {path}"));
        *place = serde_json::from_str(value).unwrap();
        let expansion = Expansion::new(&broken_template, PARAMETER_SETS[set].1);
        assert!(broken(&expansion).contains(&rule), "{path} = {value} does not break: {rule}");
    }
    for (rule, _) in RULES.concat() {
        let last = "no role may do everything with something";
        assert!(
            rule == last || BREAKS.concat().iter().any(|(name, ..)| *name == rule),
            "untried: {rule}"
        );
    }
}

#[test]
fn a_role_that_may_do_everything_is_noticed() {
    for (pointer, value) in [("Action", "sqs:*"), ("Resource", "*")] {
        let mut template = template();
        template["Resources"]["ConsumerRole"]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
            [0][pointer] = json!(value);
        let expansion = Expansion::new(&template, &[]);
        assert_eq!(broken(&expansion), ["no role may do everything with something"]);
    }
}

fn broken(expansion: &Expansion) -> Vec<&'static str> {
    let rules = RULES.iter().copied().flatten();
    rules.filter(|(_, holds)| !holds(expansion)).map(|(rule, _)| *rule).collect()
}

fn variable(it: &Expansion, function: &str, name: &str) -> i64 {
    number(&it.properties(function)["Environment"]["Variables"][name])
}

fn attribute(resource: &str, name: &str) -> Value {
    json!({ "Fn::GetAtt": [resource, name] })
}

fn keeps_logs_as_told(it: &Expansion, group: &str) -> bool {
    text(&it.properties(group)["RetentionInDays"]) == it.parameter("LogRetentionDays")
}
