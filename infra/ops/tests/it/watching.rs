//! The alarms and the dashboard look at what there is, and tell somebody.

use ops::parameter_sets::PARAMETER_SETS;
use serde_json::{Value, json};
use shared::metrics::Metric;

use crate::expansion::{Expansion, number, template, text};

#[test]
fn every_alarm_tells_somebody_and_says_what_to_look_at_first() {
    for (set, parameters) in PARAMETER_SETS {
        let expansion = Expansion::new(&template(), parameters);
        let alarms = expansion.all("AWS::CloudWatch::Alarm");
        assert_eq!(alarms.len(), 8);
        for (id, alarm) in alarms {
            let alarm = &alarm["Properties"];
            let topic = json!([{ "Ref": "AlarmTopic" }]);
            assert_eq!((&alarm["AlarmActions"], &alarm["OKActions"]), (&topic, &topic), "{id}");
            let says = text(&alarm["AlarmDescription"]);
            assert!(says.contains("Look at"), "{set}, {id}: {says}");
            assert!(says.len() <= 1024, "{id}: CloudWatch takes 1024 characters");
            assert_eq!(alarm["TreatMissingData"], "notBreaching", "{id}");
            check_metric(&text(&alarm["Namespace"]), &text(&alarm["MetricName"]));
        }
    }
}

#[test]
fn an_address_is_told_of_alarms_and_none_subscribes_nobody() {
    let with = Expansion::new(&template(), &[("AlarmEmail", "a@example.com")]);
    let subscription = with.properties("AlarmSubscription");
    assert_eq!(
        (&subscription["Protocol"], &subscription["Endpoint"]),
        (&json!("email"), &json!("a@example.com"))
    );
    let without = Expansion::new(&template(), &[]);
    assert!(without.resource("AlarmSubscription").is_null());
}

#[test]
fn a_batch_is_slow_at_four_fifths_of_the_timeout() {
    let template = template();
    let timeouts = template["Parameters"]["ConsumerTimeout"]["AllowedValues"].as_array().unwrap();
    for timeout in timeouts {
        let expansion = Expansion::new(&template, &[("ConsumerTimeout", &text(timeout))]);
        let threshold = number(&expansion.properties("SlowBatchesAlarm")["Threshold"]);
        assert_eq!(threshold, number(timeout) * 800);
    }
}

#[test]
fn the_dashboard_shows_metrics_that_there_are() {
    let expansion = Expansion::new(&template(), &[]);
    let body = text(&expansion.properties("Dashboard")["DashboardBody"]);
    let body: Value = serde_json::from_str(&body).unwrap();
    let widgets = body["widgets"].as_array().unwrap();
    let metrics = widgets.iter().filter_map(|widget| widget["properties"]["metrics"].as_array());
    let mut shown = 0;
    for metric in metrics.flatten() {
        check_metric(metric[0].as_str().unwrap(), metric[1].as_str().unwrap());
        shown += 1;
    }
    assert!(shown > 40, "{shown}");
}

fn check_metric(namespace: &str, name: &str) {
    if namespace == "Relevo/relevo" {
        let is_counted = Metric::ALL.iter().any(|metric| metric.name() == name);
        assert!(is_counted, "no function counts {name}");
    } else {
        assert!(namespace.starts_with("AWS/"), "{namespace}");
    }
}
