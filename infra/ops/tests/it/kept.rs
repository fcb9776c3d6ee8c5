//! What a deleted stack leaves behind can be taken up by one of the same name.
//!
//! `cargo ops prove infra` does it.

use serde_json::Value;

use crate::expansion::read;

/// What CloudFormation could only change by replacing it.
const FIXED: [&str; 4] = ["QueueName", "TableName", "KeySchema", "AttributeDefinitions"];

#[test]
fn what_is_imported_is_what_the_template_goes_on_with() {
    let (template, kept) = (read("template.yaml"), read("kept.yaml"));
    let is_kept = |it: &Value| it["UpdateReplacePolicy"] == "Retain";
    let resources = template["Resources"].as_object().unwrap();
    let expected: Vec<_> =
        resources.iter().filter(|(_, it)| is_kept(it)).map(|(id, _)| id).collect();
    let imported = kept["Resources"].as_object().unwrap();
    assert_eq!(imported.keys().collect::<Vec<_>>(), expected);
    for (id, resource) in imported {
        assert_eq!(resource["Type"], resources[id]["Type"], "{id}");
        // An import takes nothing else.
        assert_eq!(resource["DeletionPolicy"], "Retain", "{id}");
        for property in FIXED {
            let theirs = &resources[id]["Properties"][property];
            assert_eq!(resource["Properties"][property], *theirs, "{id}: {property}");
        }
    }
}
