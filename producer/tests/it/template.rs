//! The template deploys what the code counts on.

use std::time::Duration;

use producer::ANSWER_WITHIN;

/// A property of the producer's function, as the template writes it.
fn property(name: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../infra/template.yaml");
    let template = std::fs::read_to_string(path).unwrap();
    // Resources are indented by two blanks, their properties by six.
    let function = template.lines().skip_while(|line| *line != "  Producer:").skip(1);
    let mut lines = function.take_while(|line| line.is_empty() || line.starts_with("   "));
    let prefix = format!("      {name}: ");
    let value = lines.find_map(|line| line.strip_prefix(&prefix)).unwrap();
    value.split('#').next().unwrap().trim().to_owned()
}

#[test]
fn a_request_is_answered_a_second_before_the_function_is_stopped() {
    let timeout = Duration::from_secs(property("Timeout").parse().unwrap());
    assert_eq!(ANSWER_WITHIN + Duration::from_secs(1), timeout);
}
