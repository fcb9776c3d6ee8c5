//! A deployment takes over at once, or through an alias and step by step.

use serde_json::json;

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

/// A version keeps the parameters that it was published with.
#[test]
fn without_a_shift_nothing_goes_through_the_alias() {
    let expansion = Expansion::new(&template(), &[]);
    let function = |name: &str| json!({ "Ref": name });
    assert_eq!(expansion.properties("QueueToConsumer")["FunctionName"], function("Consumer"));
    assert_eq!(expansion.properties("ApiMayInvokeProducer")["FunctionName"], function("Producer"));
    assert!(expansion.all("AWS::CodeDeploy::DeploymentGroup").is_empty());
}
