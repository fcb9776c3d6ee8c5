//! What CloudWatch makes of lines in its embedded metric format, for tests.
//!
//! Source: "Specification: Embedded metric format",
//! <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>.
//! CloudWatch drops what breaks a rule without a word, so tests must find it.

use std::collections::BTreeMap;
use std::fmt::Write;

use jsonschema::Validator;
use serde_json::Value;

/// Metrics and their values, by name and dimensions: `JobsSucceeded Kind=probe`.
pub type Published = BTreeMap<String, Vec<f64>>;

/// What CloudWatch publishes of a log's lines. Other lines than those of the
/// format are left out.
///
/// # Errors
///
/// The rule that a line breaks, and the line.
pub fn published(log: &str, namespace: &str) -> Result<Published, String> {
    let schema = schema()?;
    let mut published = Published::new();
    for line in log.lines() {
        let Ok(document) = serde_json::from_str::<Value>(line) else { continue };
        if document.get("_aws").is_none() {
            continue;
        }
        schema
            .validate(&document)
            .map_err(|broken| format!("{broken}, at {}: {line}", broken.instance_path()))?;
        read(&document, namespace, &mut published).map_err(|broken| format!("{broken}: {line}"))?;
    }
    Ok(published)
}

/// The schema that the specification gives. It knows the metadata alone, not the
/// members that these refer to.
fn schema() -> Result<Validator, String> {
    let schema = serde_json::from_str(include_str!("emf.schema.json"));
    let schema = schema.map_err(|error| error.to_string())?;
    jsonschema::validator_for(&schema).map_err(|error| error.to_string())
}

/// Holds a document to what the specification says beyond its schema.
fn read(document: &Value, namespace: &str, published: &mut Published) -> Result<(), &'static str> {
    let metadata = &document["_aws"];
    // From 14 days ago to 2 h ahead; here it is enough that it is one in ms.
    let timestamp = metadata["Timestamp"].as_u64();
    timestamp.filter(|millis| *millis > 1_000_000_000_000).ok_or("no Timestamp in ms")?;
    for directive in elements(&metadata["CloudWatchMetrics"]) {
        if directive["Namespace"] != namespace {
            return Err("not the namespace");
        }
        let metrics = elements(&directive["Metrics"]);
        if !(1..=100).contains(&metrics.len()) {
            return Err("not 1 to 100 metrics");
        }
        for set in elements(&directive["Dimensions"]) {
            let dimensions = dimensions(document, set)?;
            for metric in metrics {
                let (name, values) = metric_of(document, metric)?;
                published.entry(format!("{name}{dimensions}")).or_default().extend(values);
            }
        }
    }
    Ok(())
}

fn elements(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn dimensions(document: &Value, set: &Value) -> Result<String, &'static str> {
    let mut text = String::new();
    for name in elements(set).iter().filter_map(Value::as_str) {
        let value = document[name].as_str().ok_or("a dimension has no text")?;
        if value.is_empty() || value.len() > 1024 || !value.is_ascii() {
            return Err("a dimension's value is not 1 to 1024 ASCII characters");
        }
        // Writing to a String cannot fail.
        let _ = write!(text, " {name}={value}");
    }
    Ok(text)
}

fn metric_of<'a>(document: &Value, metric: &'a Value) -> Result<(&'a str, Vec<f64>), &'static str> {
    let name = metric["Name"].as_str().ok_or("a metric has no name")?;
    metric["Unit"].as_str().ok_or("a metric has no unit")?;
    let numbers = |value: &Value| {
        let values = value.as_array().filter(|values| values.len() <= 100)?;
        values.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>()
    };
    let target = document.get(name).ok_or("a metric has no value")?;
    let values = match (target, target.get("Values"), target.get("Counts")) {
        (Value::Number(number), ..) => number.as_f64().map(|number| vec![number]),
        (Value::Array(_), ..) => numbers(target),
        // Values and how often each occurred, as AWS's own exporters write it.
        (_, Some(values), Some(counts)) => {
            numbers(values).zip(counts.as_array()).map(|(values, counts)| {
                let times = counts.iter().filter_map(Value::as_u64);
                values
                    .into_iter()
                    .zip(times)
                    .flat_map(|(value, times)| (0..times).map(move |_| value))
                    .collect()
            })
        }
        _ => None,
    };
    Ok((name, values.filter(|values| !values.is_empty()).ok_or("a metric is no number")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: &str, to: &str) -> Result<Published, String> {
        let sound = r#"{"_aws":{"Timestamp":1800000000000,"CloudWatchMetrics":[{"Namespace":"N","Dimensions":[[],["Kind"]],"Metrics":[{"Name":"M","Unit":"Count"}]}]},"Kind":"k","M":{"Values":[1,2],"Counts":[1,2]}}"#;
        assert!(sound.contains(change), "{change}");
        published(&sound.replace(change, to), "N")
    }

    #[test]
    fn a_metric_has_values_for_each_set_of_dimensions() {
        let values = vec![1.0, 2.0, 2.0];
        let expected = [("M".to_owned(), values.clone()), ("M Kind=k".to_owned(), values)];
        assert_eq!(check("", ""), Ok(Published::from(expected)));
    }

    #[test]
    fn what_cloudwatch_would_drop_is_found() {
        for (change, to, rule) in [
            ("1800000000000", "1800000000", "no Timestamp"),
            (r#""Namespace":"N""#, r#""Namespace":"O""#, "namespace"),
            (r#"[[],["Kind"]]"#, "[]", "/_aws/CloudWatchMetrics/0/Dimensions"),
            (r#""Timestamp":1800000000000,"#, "", "\"Timestamp\" is a required property"),
            (r#""Kind":"k""#, r#""Kind":1"#, "dimension has no text"),
            (r#""Kind":"k""#, r#""Kind":"""#, "1 to 1024"),
            (r#""Unit":"Count""#, r#""Unit":"ms""#, "/Metrics/0/Unit"),
            (r#","Unit":"Count""#, "", "no unit"),
            (r#""M":{"#, r#""L":{"#, "no value"),
            (r#"{"Values":[1,2],"Counts":[1,2]}"#, r#""1""#, "no number"),
        ] {
            let error = check(change, to).expect_err(to);
            assert!(error.contains(rule), "{error}");
        }
    }
}
