//! A deployment takes over at once, or through an alias and step by step.

use serde_json::{Value, json};

use crate::expansion::{Expansion, template, transform};

const SHIFT: [(&str, &str); 1] = [("TrafficShift", "Canary10Percent30Minutes")];

#[test]
fn a_shift_goes_through_the_alias_and_stops_at_alarms() {
    let expansion = Expansion::new(&transform(&SHIFT), &SHIFT);
    for (function, alarms) in [("Producer", 1), ("Consumer", 1)] {
        let alias = expansion.resource(&format!("{function}Aliaslive"));
        let group = format!("{function}DeploymentGroup");
        let update = &alias["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"];
        assert_eq!(update["DeploymentGroupName"], json!({ "Ref": group }));
        let watched = &expansion.properties(&group)["AlarmConfiguration"]["Alarms"];
        assert_eq!(watched.as_array().unwrap().len(), alarms, "{function}");
    }
    let alias = |function: &str| json!({ "Ref": format!("{function}Aliaslive") });
    assert_eq!(expansion.properties("QueueToConsumer")["FunctionName"], alias("Consumer"));
    assert_eq!(expansion.properties("ApiToProducer")["IntegrationUri"], alias("Producer"));
    assert_eq!(expansion.properties("ApiMayInvokeProducer")["FunctionName"], alias("Producer"));
}

/// What `infra/README.md` warns of; the day that it fails is the day to change that.
#[test]
fn a_version_is_not_published_for_a_parameter() {
    let versions = |template: Value| {
        let resources = template["Resources"].as_object().unwrap().clone();
        let versions = resources.into_iter().filter(|(_, it)| it["Type"] == "AWS::Lambda::Version");
        versions.map(|(id, _)| id).collect::<Vec<_>>()
    };
    let before = versions(template());
    assert_eq!(before.len(), 2);
    assert_eq!(versions(transform(&[("LogLevel", "debug"), ("BatchSize", "1")])), before);
}

/// A version keeps the parameters that it was published with.
#[test]
fn without_a_shift_nothing_goes_through_the_alias() {
    let expansion = Expansion::new(&template(), &[]);
    let function = |name: &str| json!({ "Ref": name });
    assert_eq!(expansion.properties("QueueToConsumer")["FunctionName"], function("Consumer"));
    assert_eq!(expansion.properties("ApiMayInvokeProducer")["FunctionName"], function("Producer"));
    assert!(expansion.all("AWS::CodeDeploy::DeploymentGroup").is_empty());
}
